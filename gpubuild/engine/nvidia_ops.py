"""NVIDIA ops: which chips have the instructions of the nvgpu and nvvm dialects.

LLVM ends the process when it is to select an instruction that a chip lacks. The numbers are those of
the PTX ISA manual, section "Target ISA Notes" of each instruction.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.chips import sm_number
from gpubuild.engine.emit import Emitter

_TENSORS, _ASYNC, _HOPPER = 75, 80, 90
# The longest prefix that fits counts. True: of that architecture alone (sm_90a), not of later chips.
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
    "nvvm.cp.async.": (_ASYNC, False),
    "nvvm.cp.async.bulk.": (_HOPPER, False),
    "nvvm.elect.sync": (_HOPPER, False),
    "nvvm.fence.mbarrier.init": (_HOPPER, False),
    "nvvm.fence.proxy": (_HOPPER, False),
    "nvvm.griddepcontrol": (_HOPPER, False),
    "nvvm.ldmatrix": (_TENSORS, False),
    "nvvm.mapa": (_HOPPER, False),
    "nvvm.mbarrier.": (_ASYNC, False),
    "nvvm.mbarrier.arrive.expect_tx": (_HOPPER, False),
    "nvvm.mbarrier.try_wait": (_HOPPER, False),
    "nvvm.mma.": (70, False),
    "nvvm.mma.sp.": (_ASYNC, False),
    "nvvm.prefetch.tensormap": (_HOPPER, False),
    "nvvm.redux.sync": (_ASYNC, False),
    "nvvm.setmaxregister": (_HOPPER, True),
    "nvvm.stmatrix": (_HOPPER, False),
    "nvvm.tcgen05.": (100, True),
    "nvvm.wgmma.": (_HOPPER, True),
    "nvvm.wmma.": (70, False),
}
_BY_LENGTH = sorted(_SINCE, key=len, reverse=True)
_OWN_TYPES = re.compile(r"!nvgpu\.tensormap\.descriptor\b")


def chip_refusal(op: ir.Operation, chip: str) -> str:
    """Why NVIDIA's ``chip`` cannot do ``op`` of the nvgpu or nvvm dialect, or an empty string."""
    if not op.name.startswith(("nvgpu.", "nvvm.")):
        return ""
    prefix = next((p for p in _BY_LENGTH if op.name.startswith(p)), "")
    if not prefix:
        return ""
    since, alone = _SINCE[prefix]
    if op.name == "nvgpu.mma.sync" and _is_large(op):
        since = _ASYNC
    if alone:
        family = re.fullmatch(r"sm_(\d+)([af]?)", chip)
        if family and int(family[1]) // 10 == since // 10 and family[2]:
            return ""
        return f"'{op.name}' needs sm_{since}a; {chip} does not have it"
    if sm_number(chip) < since:
        return f"'{op.name}' needs sm_{since} or later; {chip} does not have it"
    return ""


def _is_large(op: ir.Operation) -> bool:
    """Whether a shape or a type came with sm_80: sm_75 has m16n8k8 of f16 and m8n8 of integers."""
    element = str(ir.VectorType(op.operands[0].type).element_type)
    rows, _, depth = (int(n.value) for n in ir.ArrayAttr(op.attributes["mmaShape"]))
    return not ((element.startswith("i") and rows == 8) or (element == "f16" and depth == 8))


def pass_descriptors_as_pointers(function: ir.Operation) -> None:
    """Give a kernel pointers in place of the nvgpu types among its parameters.

    Upstream's conversion of functions does not know those types; outlining makes them parameters.
    """
    body = function.regions[0].blocks
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not len(body) or not any(_OWN_TYPES.match(str(t)) for t in kind.inputs):
        return
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(body[0].operations[0].operation)
    inputs = []
    for argument, given in zip(body[0].arguments, kind.inputs, strict=False):
        if not _OWN_TYPES.match(str(given)):
            inputs.append(given)
            continue
        seen = emit.op("builtin.unrealized_conversion_cast", [argument], [given])
        argument.replace_all_uses_except(seen.results[0], seen)
        argument.set_type(pointer)
        inputs.append(pointer)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))


def launch_with_pointers(op: ir.Operation) -> None:
    """The same for the host's side: what ``gpu.launch_func`` passes."""
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(op)
    for number, value in enumerate(op.operands):
        if _OWN_TYPES.match(str(value.type)):
            op.operands[number] = emit.cast(value, pointer)
