"""Operations of NVIDIA GPUs: which chips have them, and expansions to NVIDIA's instructions.

LLVM ends the process when it is to select an instruction that a chip lacks. The numbers are those of the
PTX ISA manual, section "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

import re
from math import prod

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Pass, rewriting
from gpubuild.engine.ir.query import element_type, matching, operation_names, scalar_bits, symbol_name
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_reduce import replace_by_element
from gpubuild.engine.legalize.subgroup_shuffle import lane_number, last_word, move
from gpubuild.engine.legalize.workgroup import fills_subgroups, lanes_present
from gpubuild.targets.nvidia import sm_number

_TENSORS, _ASYNC, _HOPPER = 75, 80, 90
# The longest matching prefix counts. True: only of that architecture (sm_90a), not of later chips.
_SINCE: dict[str, tuple[int, bool]] = {
    "nvgpu.ldmatrix": (_TENSORS, False),
    "nvgpu.mma.sync": (_TENSORS, False),
    "nvgpu.mma.sp.sync": (_ASYNC, False),
    "nvgpu.device_async_": (_ASYNC, False),
    "nvgpu.mbarrier.": (_ASYNC, False),
    "nvgpu.mbarrier.arrive.expect_tx": (_HOPPER, False),
    "nvgpu.mbarrier.try_wait": (_HOPPER, False),
    "nvgpu.tma.": (_HOPPER, False),
    "nvgpu.warpgroup.": (_HOPPER, True),
    "nvvm.barrier.cluster": (_HOPPER, False),
    "nvvm.cluster.": (_HOPPER, False),
    "nvvm.clusterlaunchcontrol.": (100, False),
    "nvvm.cp.async.": (_ASYNC, False),
    "nvvm.cp.async.bulk.": (_HOPPER, False),
    "nvvm.convert.bf16x2.to.f8x2": (100, True),
    "nvvm.convert.f16x2.to.f8x2": (89, False),
    "nvvm.convert.f32x2.to.bf16x2": (_ASYNC, False),
    "nvvm.convert.f32x2.to.f16x2": (_ASYNC, False),
    "nvvm.convert.f32x2.to.f4x2": (100, True),
    "nvvm.convert.f32x2.to.f6x2": (100, True),
    "nvvm.convert.f32x2.to.f8x2": (89, False),
    "nvvm.convert.f32x4.": (100, True),
    "nvvm.convert.f4x2.": (100, True),
    "nvvm.convert.f6x2.": (100, True),
    "nvvm.convert.f8x2.": (89, False),
    "nvvm.convert.f8x2.to.bf16x2": (100, True),
    "nvvm.convert.float.to.tf32": (_ASYNC, False),
    "nvvm.dot.accumulate": (61, False),
    "nvvm.elect.sync": (_HOPPER, False),
    "nvvm.fence.mbarrier.init": (_HOPPER, False),
    "nvvm.fence.proxy": (_HOPPER, False),
    "nvvm.fence.sc.cluster": (_HOPPER, False),
    "nvvm.fence.sync_restrict": (_HOPPER, False),
    "nvvm.griddepcontrol": (_HOPPER, False),
    "nvvm.ldmatrix": (_TENSORS, False),
    "nvvm.mapa": (_HOPPER, False),
    "nvvm.match.sync": (70, False),
    "nvvm.mbarrier.": (_ASYNC, False),
    "nvvm.mbarrier.arrive.expect_tx": (_HOPPER, False),
    "nvvm.mbarrier.try_wait": (_HOPPER, False),
    "nvvm.mma.": (70, False),
    "nvvm.mma.block_scale": (120, True),
    "nvvm.mma.sp.": (_ASYNC, False),
    "nvvm.mma.sp.block_scale": (120, True),
    "nvvm.nanosleep": (70, False),
    "nvvm.prefetch": (_HOPPER, False),
    "nvvm.read.ptx.sreg.aggr.smem.size": (_HOPPER, False),
    "nvvm.read.ptx.sreg.cluster": (_HOPPER, False),
    "nvvm.read.ptx.sreg.nclusterid": (_HOPPER, False),
    "nvvm.redux.sync": (_ASYNC, False),
    "nvvm.setmaxregister": (_HOPPER, True),
    "nvvm.st.bulk": (100, False),
    "nvvm.stmatrix": (_HOPPER, False),
    "nvvm.tcgen05.": (100, True),
    "nvvm.wgmma.": (_HOPPER, True),
    "nvvm.wmma.": (70, False),
}
_BY_LENGTH = sorted(_SINCE, key=len, reverse=True)
# The PTX version of each, times ten, where the default version of a chip's code may be older.
_PTX = {
    "nvgpu.mbarrier.arrive.expect_tx": 80,
    "nvgpu.tma.": 80,
    "nvgpu.tma.fence.descriptor": 83,
    "nvvm.convert.f32x2.to.f8x2": 81,
    "nvvm.convert.f32x4.": 87,
    "nvvm.cp.async.bulk.": 80,
    "nvvm.elect.sync": 80,
    "nvvm.fence.mbarrier.init": 80,
    "nvvm.fence.proxy": 80,
    "nvvm.fence.proxy.acquire": 83,
    "nvvm.fence.proxy.release": 83,
    "nvvm.fence.proxy.sync_restrict": 86,
    "nvvm.fence.sync_restrict": 86,
    "nvvm.mbarrier.arrive.expect_tx": 80,
    "nvvm.mma.block_scale": 87,
    "nvvm.mma.sp.": 85,
    "nvvm.mma.sp.block_scale": 87,
    "nvvm.prefetch": 80,
    "nvvm.st.bulk": 86,
    "nvvm.tcgen05.mma.block_scale": 88,
    "nvvm.tcgen05.mma.sp.block_scale": 88,
}
_PTX_BY_LENGTH = sorted(_PTX, key=len, reverse=True)


_OWN = ("nvgpu.", "nvvm.")


def chip_refusal(op: ir.Operation, chip: str, ptx: int = 0) -> str:
    """Return why ``chip`` does not have ``op`` of the nvgpu or nvvm dialect, or an empty string.

    ``ptx`` is the version, times ten, that the user asks for; 0 for any.
    """
    if not op.name.startswith(_OWN):
        return ""
    prefix = next((p for p in _BY_LENGTH if op.name.startswith(p)), "")
    if not prefix:
        return ""
    since, alone = _SINCE[prefix]
    if op.name == "nvgpu.mma.sync" and _is_large(op):
        since = _ASYNC
    if op.name == "nvvm.redux.sync" and isinstance(op.operands[0].type, ir.FloatType):
        since, alone = 100, True
    if alone:
        family = re.fullmatch(r"sm_(\d+)([af]?)", chip)
        if not (family and int(family[1]) // 10 == since // 10 and family[2]):
            return f"'{op.name}' needs sm_{since}a; {chip} does not have it"
    elif sm_number(chip) < since:
        return f"'{op.name}' needs sm_{since} or later; {chip} does not have it"
    needed = _ptx_of(op)
    if ptx and ptx < needed:
        return (
            f"'{op.name}' needs PTX {needed // 10}.{needed % 10}, and `features` of the target say "
            f"{ptx // 10}.{ptx % 10}"
        )
    return ""


def uses_own_dialects(text: str) -> bool:
    """Return whether canonical text may have operations of the nvgpu or nvvm dialect."""
    return any(map(text.__contains__, _OWN))


def ptx_needed(module: ir.Operation) -> int:
    """Return the PTX version, times ten, that the nvgpu and nvvm ops of ``module`` need; 0 for any."""
    return max(map(_ptx_of, matching(module, lambda op: op.name.startswith(_OWN))), default=0)


def _ptx_of(op: ir.Operation) -> int:
    if not op.name.startswith(_OWN):
        return 0
    return next((_PTX[p] for p in _PTX_BY_LENGTH if op.name.startswith(p)), 0)


def _is_large(op: ir.Operation) -> bool:
    """Return whether a shape or a type needs sm_80: sm_75 has m16n8k8 of f16 and m8n8 of integers."""
    element = str(ir.VectorType(op.operands[0].type).element_type)
    rows, _, depth = (int(n.value) for n in ir.ArrayAttr(op.attributes["mmaShape"]))
    return not ((element.startswith("i") and rows == 8) or (element == "f16" and depth == 8))


# The names of reductions in nvvm.redux.sync, which does not multiply.
_REDUX = {
    "add": "add", "minui": "umin", "minsi": "min", "maxui": "umax", "maxsi": "max",
    "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_REDUX_SINCE = 80
_I32_BITS = 32
_WORKGROUP_SPACE = 3
_EXTREMA = frozenset({"f16", "bf16", "f32"})  # types of max.NaN and min.NaN


def propagates_nan(state: GpuLowering) -> frozenset[str]:
    """Return the types whose minimum and maximum the chip has with NaN as result."""
    return _EXTREMA if sm_number(state.params.target.chip) >= _ASYNC else frozenset()


def _reduce(op: ir.Operation, state: GpuLowering) -> None:
    """Expand ``gpu.subgroup_reduce`` of 32-bit integers to one instruction, ``nvvm.redux.sync``.

    As upstream does, where the source states (``uniform``) that the whole subgroup reaches it.
    """
    size = state.capabilities.subgroup_size
    if "cluster_size" in op.attributes and op.attributes["cluster_size"].value != size:
        return
    name = last_word(op.attributes["op"])
    if "uniform" in op.attributes and name in _REDUX and _is_word(op.operands[0].type):
        replace_by_element(op, _Redux(Emitter(op), name, full=fills_subgroups(op, size)).reduce)


def _is_word(kind: ir.Type) -> bool:
    """Return whether values of ``kind``, or their elements, are integers of 32 bits."""
    element = element_type(kind)
    return isinstance(element, ir.IntegerType) and scalar_bits(element) == _I32_BITS


class _Redux:
    """``nvvm.redux.sync`` of the existing lanes: it would wait for others in its mask."""

    def __init__(self, emit: Emitter, name: str, *, full: bool) -> None:
        self._emit = emit
        self._kind = ir.Attribute.parse(f"#nvvm<redux_kind {_REDUX[name]}>")
        i32 = ir.IntegerType.get_signless(_I32_BITS)
        self._lanes = emit.constant(-1, i32)
        if not full:
            width = emit.constant(_I32_BITS, i32)
            present = emit.binary("arith.minui", lanes_present(emit, lane_number(emit)), width)
            self._lanes = emit.binary("arith.shrui", self._lanes, emit.binary("arith.subi", width, present))

    def reduce(self, value: ir.Value) -> ir.Value:
        """Return the reduction of the subgroup, in every lane."""
        operands = [value, self._lanes]
        return self._emit.value("nvvm.redux.sync", operands, value.type, {"kind": self._kind})


def _broadcast(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.subgroup_broadcast``: all lanes that are active here read the same one."""
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(_I32_BITS)
    mask = emit.call_intrinsic("llvm.nvvm.activemask", [i32]).results[0]
    specific = len(op.operands) > 1
    source = op.operands[1] if specific else emit.value("math.cttz", [mask], i32)

    def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        shuffle = at.op(
            "nvvm.shfl.sync",
            [mask, word, source, at.constant(state.capabilities.subgroup_size - 1, i32)],
            [i32],
            {"kind": ir.Attribute.parse("#nvvm<shfl_kind idx>")},
        )
        return shuffle.results[0], word

    emit.replace(move(emit, op.operands[0], read)[0])


REDUCE = rewriting(
    "subgroup-reduce-to-redux",
    {"gpu.subgroup_reduce": _reduce},
    when=lambda state: sm_number(state.params.target.chip) >= _REDUX_SINCE,
)
BROADCAST = rewriting("subgroup-broadcast-to-nvvm", {"gpu.subgroup_broadcast": _broadcast})

# Instructions that need aligned workgroup memory, with the bytes. Tensor maps that swizzle 128 bytes repeat
# their pattern every 1,024 bytes; matrix and asynchronous loads take rows of 32.
_ALIGNMENTS = (
    (("cp.async.bulk.tensor",), 1024),
    (("cp.async", "ldmatrix", "stmatrix", "nvvm.mma", "nvvm.wmma", "nvvm.wgmma"), 32),
)
_MBARRIER = "__mbarrier"  # upstream's name; it is no data
_PIECE = 16  # bytes: LLVM aligns larger variables to as many and joins accesses, but its PTX does not say so
_SCALARS = re.compile(r"(?:!llvm\.array<)?((?:\d+ x (?:array<)?)*)(?:i|f|bf)(\d+)>*")


def _align_variables(module: ir.Module, state: GpuLowering) -> None:
    """Align variables for the instructions of the module, which fail at run time if they are not."""
    for kernels in contexts.gpu_modules(module):
        variables = [op.operation for op in kernels.regions[0].blocks[0] if _is_data(op.operation)]
        if not variables:
            continue
        found = " ".join((*operation_names(kernels), state.source.text))  # the text has inline assembly
        least = next((n for words, n in _ALIGNMENTS if any(word in found for word in words)), 1)
        for op in variables:
            in_workgroup = (
                "addr_space" in op.attributes and op.attributes["addr_space"].value == _WORKGROUP_SPACE
            )
            needed = max(_alignment(str(op.attributes["global_type"].value)), least if in_workgroup else 1)
            given = op.attributes["alignment"].value if "alignment" in op.attributes else 0
            if given < needed:
                op.attributes["alignment"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), needed)


def _alignment(kind: str) -> int:
    """Return the alignment of a variable of type ``kind``, in bytes.

    It is that of an element where LLVM would read pieces that reach behind the end of an array.
    """
    found = _SCALARS.fullmatch(kind)
    if found is None:
        return _PIECE
    element = max(1, (1 << (int(found[2]) - 1).bit_length()) // 8)
    count = prod(map(int, re.findall(r"\d+", found[1])))
    return element if count * element % _PIECE else _PIECE


def _is_data(op: ir.Operation) -> bool:
    return op.name == "llvm.mlir.global" and not symbol_name(op).startswith(_MBARRIER)


ALIGN_VARIABLES: Pass[GpuLowering] = Pass(name="align-variables", run=_align_variables)
