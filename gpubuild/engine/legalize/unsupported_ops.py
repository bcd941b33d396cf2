"""Refusals of operations and types that upstream's passes or LLVM would fail on without a reason.

Some would end the process, others would be reported as an error in an op that the user never wrote. Each
rule here returns the operation and the reason in words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from mlir import ir

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import constant_integer, element_type, scalar_bits
from gpubuild.engine.legalize import printf
from gpubuild.engine.legalize.state import Capabilities, Legalization
from gpubuild.engine.legalize.workgroup import WORKGROUP_SPACES
from gpubuild.errors import Diagnostic, StepError
from gpubuild.support.frozen import replace

S = TypeVar("S", bound=Legalization)

# Dialects of other devices, and which devices these are.
_ELSEWHERE = {
    "amx": "x86 CPUs, which kernels do not use",
    "arm_neon": "Arm CPUs, which kernels do not use",
    "arm_sme": "Arm CPUs, which kernels do not use",
    "arm_sve": "Arm CPUs, which kernels do not use",
    "mpi": "host code",
    "x86vector": "x86 CPUs, which kernels do not use",
    "xegpu": "Intel GPUs",
    "xevm": "Intel GPUs",
}
_OF_HOSTS = "is an operation of host code; kernels cannot do it"
_NO_ENGINE = "needs a copy engine, which no target has; use memref.copy"
_NOWHERE = {
    "affine.dma_start": _NO_ENGINE,
    "affine.dma_wait": _NO_ENGINE,
    "gpu.alloc": _OF_HOSTS,
    "gpu.dealloc": _OF_HOSTS,
    "gpu.host_register": _OF_HOSTS,
    "gpu.host_unregister": _OF_HOSTS,
    "gpu.launch_func": _OF_HOSTS,
    "gpu.memcpy": _OF_HOSTS,
    "gpu.memset": _OF_HOSTS,
    "gpu.set_default_device": _OF_HOSTS,
    "gpu.wait": _OF_HOSTS,
    "memref.dma_start": _NO_ENGINE,
    "memref.dma_wait": _NO_ENGINE,
    "rocdl.exp": "cannot be translated: LLVM has no such function of one argument; use math.exp",
    "vector.print": "calls functions that only host code has; use gpu.printf",
    "vector.vscale": "needs vectors of scalable length, which no target has; use vectors of fixed length",
}
# First words of intrinsics' names, after `llvm.`, and the devices that have them.
_INTRINSICS = {
    "aarch64": "Arm CPUs", "amdgcn": "AMD GPUs", "arm": "Arm CPUs", "nvvm": "NVIDIA GPUs",
    "r600": "AMD GPUs", "x86": "x86 CPUs",
}  # fmt: skip
_VENDORS = {"rocdl": "AMD", "amdgpu": "AMD", "nvvm": "NVIDIA", "nvgpu": "NVIDIA"}  # by dialect
_CLUSTER_OPS = frozenset(
    {"gpu.cluster_id", "gpu.cluster_dim", "gpu.cluster_block_id", "gpu.cluster_dim_blocks"}
)
_LANE_EXCHANGES = frozenset(
    {"gpu.shuffle", "gpu.rotate", "gpu.all_reduce", "gpu.subgroup_reduce", "gpu.subgroup_broadcast"}
)
_ON_LANE_0 = "gpu.warp_execute_on_lane_0"
_MEMORY_OPERAND = {"memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1,
                   "vector.transfer_read": 0, "vector.transfer_write": 1, "vector.maskedload": 0,
                   "vector.maskedstore": 0, "vector.expandload": 0, "vector.compressstore": 0}  # fmt: skip
# The attribute with the name of an intrinsic, by operations that may call one.
_INTRINSIC_NAMES = {"func.call": "callee", "llvm.call": "callee", "llvm.call_intrinsic": "intrin"}
# No rule reads attributes or uses of these operations.
_JUDGED_BY_TYPES = ("arith.", "math.", "memref.load", "memref.store")
# Of these, the first result has the type of all operands.
_OF_ONE_TYPE = ("arith.add", "arith.div", "arith.max", "arith.min", "arith.mul", "arith.sub")
_TENSOR_FLOAT = "tf32"  # the bindings have no class for it
_ATOMIC_BITS = (8, 16, 32, 64)
_WIDEST_CONVERTED = 128  # LLVM's code for wider ones returns zero for numbers that are too large
_WIDE_FLOATS = frozenset({"f80", "f128"})
_PARAMETER_CLASSES = (
    ir.ComplexType, ir.FloatType, ir.IndexType, ir.IntegerType, ir.MemRefType, ir.UnrankedMemRefType,
    ir.VectorType,
)  # fmt: skip
_NO_PARAMETERS = re.compile(r"tensor<|tuple<|!gpu\.|!async\.|!shape\.")
_PRIVATE, _WORKGROUP = "#gpu.address_space<private>", "#gpu.address_space<workgroup>"
_OF_WORKGROUP = "bytes of workgroup memory"
_WORKGROUPS = "workgroup_attributions"  # of a gpu.func: their number; private ones follow
_UNIFORM = "uniform"
_KERNEL = ("gpu.kernel", "kernel")
_FUNCTIONS = frozenset({"gpu.func", "func.func"})


Rule = Callable[[ir.Operation, S], str]  # why an operation cannot be compiled, or an empty string


def checking(*rules: Rule[S]) -> Pass[S]:
    """Return the pass that refuses unsupported operations, by a vendor's ``rules`` and those of this module.

    It changes nothing, and reports all operations at once.
    """
    every: tuple[Rule[S], ...] = (_foreign, *rules, _refusal)

    def run(module: ir.Module, state: S) -> None:
        refused: list[tuple[ir.Operation, str]] = []
        accepted: set[tuple[str | ir.Type, ...]] = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            kind: tuple[str | ir.Type, ...] = ()
            if (name := op.name).startswith(_JUDGED_BY_TYPES):
                kind = (name, *(v.type for v in op.results))
                if not name.startswith(_OF_ONE_TYPE):
                    kind += tuple(v.type for v in op.operands)
                if kind in accepted:
                    return ir.WalkResult.ADVANCE
            for rule in every:
                if reason := rule(op, state):
                    refused.append((op, reason))
                    return ir.WalkResult.ADVANCE
            if kind:
                accepted.add(kind)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        if refused:
            raise cannot_compile(refused, state)

    return Pass(name="check-operations", run=run)


def cannot_compile(
    refused: Sequence[tuple[ir.Operation, str]], state: Legalization, *, instead: str = "remove"
) -> StepError:
    """Return the error that reports operations with reasons; ``instead`` is a verb: what to do with them."""
    target = f"target {state.target}" if state.target else "this target"
    hint = f"leave this target out for the module (`modules:` in targets.yaml), or {instead} the operation"
    if all(op.name == "gpu.printf" for op, _ in refused):
        hint = "correct the format or the arguments, which are the same for all targets"
    return StepError(
        f"{target} cannot compile {'this' if state.target else 'the'} module",
        diagnostics=diagnostics(refused, state.source),
        hint=hint,
    )


def diagnostics(refused: Sequence[tuple[ir.Operation, str]], source: SourceText) -> list[Diagnostic]:
    """Return a diagnostic with a location for each operation and reason."""
    return [
        replace(about(op, reason, source), about="workgroup(" if _OF_WORKGROUP in reason else "")
        for op, reason in refused
    ]


def _foreign(op: ir.Operation, state: Legalization) -> str:
    dialect = op.name.partition(".")[0]
    owner = _VENDORS.get(dialect)
    if owner is None or dialect in state.capabilities.dialects:
        return ""
    return f"'{op.name}' is an instruction of {owner} GPUs"


def _refusal(op: ir.Operation, state: Legalization) -> str:
    target = state.capabilities
    if reason := _by_name(op, target):
        return reason
    if op.name in _LANE_EXCHANGES and not target.exchanges_lanes:
        return f"'{op.name}' needs lanes to exchange values, which this chip cannot do"
    if op.name in _CLUSTER_OPS and not target.clusters:
        return f"'{op.name}' needs clusters of workgroups, which this chip does not have"
    if op.name == _ON_LANE_0 and (reason := _lane_0_refusal(op, target)):
        return reason
    if any(type(r.type) is ir.Type and str(r.type) in _WIDE_FLOATS for r in op.results):
        return f"'{op.name}' works on {op.results[0].type}, which GPUs have no arithmetic for"
    return narrow_memory(op)


def narrow_memory(op: ir.Operation) -> str:
    """Return why memory of the elements that ``op`` accesses is not supported, or an empty string."""
    if (number := _MEMORY_OPERAND.get(op.name)) is None:
        return ""
    element = element_type(op.operands[number].type)
    if isinstance(element, ir.FloatType) and ir.FloatType(element).width < 8:
        return f"memory of {element} elements is not supported; keep their bits in i8 and use arith.bitcast"
    bits = ir.IntegerType(element).width if isinstance(element, ir.IntegerType) else 8
    if 1 < bits < 8:
        return f"memory of {element} elements is not supported; use i8"
    if bits & (bits - 1) and op.name.startswith("vector."):  # LLVM's vectors have no gaps, its arrays have
        return f"vectors of {element} elements in memory are not supported; use i{1 << bits.bit_length()}"
    return ""


def _by_name(op: ir.Operation, target: Capabilities) -> str:
    name = op.name
    if owner := _ELSEWHERE.get(name.partition(".")[0]):
        return f"'{name}' is an operation of {owner}"
    if reason := _NOWHERE.get(name):
        return f"'{name}' {reason}"
    if name in _INTRINSIC_NAMES and (reason := _intrinsic_refusal(op, target)):
        return reason
    if (own := _BY_NAME.get(name)) and (reason := own(op)):
        return reason
    if name == "gpu.all_reduce" and (reason := _reduction_refusal(op, target.widest_all_reduce)):
        return reason
    if name == "gpu.printf":
        return printf.refusal(op)
    if reason := _participants_refusal(op, target.subgroup_size):
        return reason
    if name == "memref.global" and not target.private_variables and _PRIVATE in str(op.attributes["type"]):
        return f"'{name}' in private memory: {target.devices} have no variables there; use memref.alloca"
    if name in _FUNCTIONS:
        return _function_refusal(op, target)
    for value in op.results:  # operands are results of others, or parameters
        if reason := _type_refusal(value.type, target):
            return f"'{name}' of {value.type}, {reason}"
    return ""


def _participants_refusal(op: ir.Operation, subgroup_size: int) -> str:
    """Return why work-items cannot do ``op`` together in subgroups of this size, or an empty string."""
    attributes = op.attributes
    if op.name == "gpu.subgroup_reduce" and "cluster_size" in attributes:
        size = attributes["cluster_size"].value
        stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
        if size * stride > subgroup_size:
            apart = f" that are {stride} apart" if stride > 1 else ""
            return f"'{op.name}' over clusters of {size} work-items{apart}, {_of(subgroup_size)}"
    if op.name == "gpu.rotate" and attributes["width"].value > subgroup_size:
        return f"'{op.name}' of {attributes['width'].value} work-items, {_of(subgroup_size)}"
    if op.name == "gpu.shuffle" and (width := constant_integer(op.operands[2]) or 0) > subgroup_size:
        return f"'{op.name}' of {width} work-items, {_of(subgroup_size)}"
    if op.name == "gpu.all_reduce" and not (_UNIFORM in attributes or _is_reached_by_all(op)):
        return (
            f"'{op.name}' without `uniform`: all work-items of a workgroup must reach it, and some may not; "
            "write `uniform` if all do"
        )
    return ""


def _lane_0_refusal(op: ir.Operation, target: Capabilities) -> str:
    """Return why the region of ``op`` cannot run on the first lane, or an empty string."""
    if (size := op.attributes["warp_size"].value) != target.subgroup_size:
        return f"'{op.name}' of {size} work-items, {_of(target.subgroup_size)}"
    arguments = zip(op.operands, (op.operands[0], *op.regions[0].blocks[0].arguments), strict=True)
    moved = [v.type for v, inside in arguments if v.type != inside.type] + [r.type for r in op.results]
    for given in moved:
        if not scalar_bits(element_type(given)) or isinstance(given, ir.MemRefType):
            return f"'{op.name}' returns {given}, which lanes cannot exchange; return numbers or vectors"
    if moved and not target.exchanges_lanes:
        return f"'{op.name}' needs lanes to exchange values, which this chip cannot do"
    return ""


def _of(subgroup_size: int) -> str:
    return f"where a subgroup has {subgroup_size}"


def _is_reached_by_all(op: ir.Operation) -> bool:
    """Return whether ``op`` is in a kernel outside of all branches and loops."""
    function = op.parent.operation
    if not any(mark in function.attributes for mark in _KERNEL):
        return False
    return bool(op.block == function.regions[0].blocks[0])


def _function_refusal(op: ir.Operation, target: Capabilities) -> str:
    is_kernel = any(mark in op.attributes for mark in _KERNEL)
    types = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
    for number, given in enumerate(types, 1):
        if is_kernel and not isinstance(given, _PARAMETER_CLASSES) and _NO_PARAMETERS.match(str(given)):
            return (
                f"parameter {number} of the kernel is of type {given}, which a launch cannot pass; "
                "pass memory (memref) or numbers"
            )
        if is_kernel and isinstance(given, ir.FloatType) and ir.FloatType(given).width < _ATOMIC_BITS[0]:
            what = f"parameter {number} of the kernel is of type {given}"
            return f"{what}; pass its bits as i8 and use arith.bitcast"
        if reason := _type_refusal(given, target):
            return f"parameter {number} is of type {given}, {reason}"
    return _attribution_refusal(op, len(types), target)


def _attribution_refusal(op: ir.Operation, parameters: int, target: Capabilities) -> str:
    """Check the sizes and spaces of workgroup and private memory.

    Upstream uses space 5 for private memory of AMD's kernels, and none for all others.
    """
    if _WORKGROUPS not in op.attributes or not len(op.regions[0].blocks):
        return ""
    first_private = parameters + op.attributes[_WORKGROUPS].value
    arguments = list(op.regions[0].blocks[0].arguments)
    for value in arguments[parameters:]:
        what = "private" if value.arg_number >= first_private else "workgroup"
        if not ir.MemRefType(value.type).has_static_shape:
            return (
                f"{what} memory of type {value.type}: write its size; "
                "gpu.dynamic_shared_memory has a size that each launch chooses"
            )
        if what == "workgroup" and ir.MemRefType(value.type).memory_space is None and list(value.uses):
            return f"workgroup memory of type {value.type}: write {_WORKGROUP} for its space"
    size = sum(_bytes(ir.MemRefType(a.type)) for a in arguments[parameters:first_private] if list(a.uses))
    if target.workgroup_bytes is not None and size > target.workgroup_bytes:
        return (
            f"the kernel has {size:,} {_OF_WORKGROUP}, and a workgroup can have "
            f"{target.workgroup_bytes:,} on this chip; use less, or gpu.dynamic_shared_memory"
        )
    for value in arguments[first_private:]:
        space = ir.MemRefType(value.type).memory_space
        number = ir.IntegerAttr(space).value if isinstance(space, ir.IntegerAttr) else 0
        if (space is None or number) and number != target.private_space:
            return (
                f"private memory of type {value.type}: write {_PRIVATE} for its space, which all targets have"
            )
    return ""


def _bytes(memory: ir.MemRefType) -> int:
    """Return the size of static memory, 0 for elements without a fixed one."""
    of, lanes = memory.element_type, 1
    if isinstance(of, ir.VectorType):
        of, lanes = of.element_type, math.prod(of.shape)
    if isinstance(of, ir.ComplexType):
        of, lanes = of.element_type, 2 * lanes
    bits = getattr(of, "width", 0)
    return math.prod(memory.shape) * lanes * (-(-bits // 8)) if memory.has_static_shape else 0


def _conversion_refusal(op: ir.Operation) -> str:
    integer = getattr(op.operands[0].type, "element_type", op.operands[0].type)
    if integer.width > _WIDEST_CONVERTED:
        return f"'{op.name}' of {integer}: integers of at most {_WIDEST_CONVERTED} bits become floats"
    return ""


def _allocation_refusal(op: ir.Operation) -> str:
    space = str(ir.MemRefType(op.results[0].type).memory_space)
    if space in WORKGROUP_SPACES:
        return (
            f"'{op.name}' in workgroup memory, of a size that only the running kernel knows: use a constant "
            "size, or gpu.dynamic_shared_memory"
        )
    return ""


def _type_refusal(given: ir.Type, target: Capabilities) -> str:
    if isinstance(given, ir.ShapedType | ir.ComplexType):
        element = str(getattr(given, "element_type", ""))
    else:
        element = str(given)
    if element == _TENSOR_FLOAT:
        return "which is a format that tensor cores round f32 to, not a type of values; use f32"
    if isinstance(given, ir.VectorType):
        if ir.VectorType(given).scalable:
            return "whose length no target knows; use a vector of fixed length"
        return ""
    if isinstance(given, ir.MemRefType):
        return _memory_refusal(ir.MemRefType(given), target)
    if type(given) is ir.Type and str(given) in _WIDE_FLOATS and not target.wide_floats:
        return "which GPUs have no arithmetic for"
    return ""


def _memory_refusal(memory: ir.MemRefType, target: Capabilities) -> str:
    layout = memory.layout
    if not isinstance(layout, ir.StridedLayoutAttr):
        try:
            memory.get_strides_and_offset()
        except RuntimeError:
            return "whose layout has no strides; compute the index in a plain memref"
    space = memory.memory_space
    if space is None:
        return ""
    if not isinstance(space, ir.IntegerAttr):
        strange = isinstance(space, ir.StringAttr | ir.DictAttr | ir.ArrayAttr)
        return "whose memory space is no #gpu.address_space and no number" if strange else ""
    spaces = target.memory_spaces
    if spaces is not None and ir.IntegerAttr(space).value not in spaces:
        return f"whose memory space {target.devices} do not have (they have {spaces[0]} to {spaces[-1]})"
    return ""


def _intrinsic_refusal(op: ir.Operation, target: Capabilities) -> str:
    where = _INTRINSIC_NAMES[op.name]
    name = str(op.attributes[where].value) if where in op.attributes else ""
    if where != "intrin" and not name.startswith(llvm.PREFIX):
        return ""
    owner = name.removeprefix(llvm.PREFIX).partition(".")[0]
    if owner in _INTRINSICS and owner not in target.intrinsics:
        return f"intrinsic {name!r} is an instruction of {_INTRINSICS[owner]}"
    # A called function may also have a name of an earlier LLVM, which LLVM converts.
    return llvm.unknown(name) if where == "intrin" and not llvm.is_known(name) else ""


def _atomic_refusal(op: ir.Operation) -> str:
    element = op.results[0].type
    if isinstance(element, ir.IntegerType):
        bits = ir.IntegerType(element).width
    elif isinstance(element, ir.FloatType):
        bits = ir.FloatType(element).width
        if bits == _ATOMIC_BITS[0] and op.name == "memref.atomic_rmw":
            return f"'{op.name}' of {element}: use memref.generic_atomic_rmw, which uses integers"
    else:
        return ""
    if bits in _ATOMIC_BITS:
        return ""
    return f"'{op.name}' of {element}: targets have atomic operations of 8, 16, 32 and 64 bits"


def _reduction_refusal(op: ir.Operation, widest: int | None) -> str:
    element = op.operands[0].type
    if widest and isinstance(element, ir.IntegerType) and ir.IntegerType(element).width > widest:
        return (
            f"'{op.name}' of {element}: it supports at most {widest} bits; reduce wider integers with "
            "gpu.subgroup_reduce and workgroup memory"
        )
    return ""


_BY_NAME: dict[str, Callable[[ir.Operation], str]] = {
    "arith.sitofp": _conversion_refusal,
    "arith.uitofp": _conversion_refusal,
    "memref.alloc": _allocation_refusal,
    "memref.atomic_rmw": _atomic_refusal,
    "memref.generic_atomic_rmw": _atomic_refusal,
}
