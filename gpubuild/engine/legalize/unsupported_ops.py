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
from gpubuild.engine.ir.query import (
    attributions,
    constant_integer,
    element_bytes,
    element_type,
    is_kernel,
    is_reached_by_all,
    scalar_bits,
    strides_and_offset,
)
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
_MEMORY_OPERAND = {"memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1,
                   "vector.transfer_read": 0, "vector.transfer_write": 1, "vector.maskedload": 0,
                   "vector.maskedstore": 0, "vector.expandload": 0, "vector.compressstore": 0}  # fmt: skip
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
    name, target = op.name, state.capabilities
    if owner := _ELSEWHERE.get(name.partition(".")[0]):
        return f"'{name}' is an operation of {owner}"
    if reason := _NOWHERE.get(name):
        return f"'{name}' {reason}"
    if (rule := _BY_NAME.get(name)) and (reason := rule(op, target)):
        return reason
    for value in op.results:  # operands are results of others, or parameters
        if reason := _type_refusal(value.type, target):
            return f"'{name}' of {value.type}, {reason}"
    if name in _LANE_EXCHANGES and not target.exchanges_lanes:
        return f"'{name}' needs lanes to exchange values, which this chip cannot do"
    if name in _CLUSTER_OPS and not target.clusters:
        return f"'{name}' needs clusters of workgroups, which this chip does not have"
    if any(type(r.type) is ir.Type and str(r.type) in _WIDE_FLOATS for r in op.results):
        return f"'{name}' works on {op.results[0].type}, which GPUs have no arithmetic for"
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


def _cluster_refusal(op: ir.Operation, target: Capabilities) -> str:
    attributes = op.attributes
    size = attributes["cluster_size"].value if "cluster_size" in attributes else 0
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    apart = f" that are {stride} apart" if stride > 1 else ""
    return _width_refusal(op, size * stride, target, f"over clusters of {size} work-items{apart}")


def _width_refusal(op: ir.Operation, width: int, target: Capabilities, what: str = "") -> str:
    """Return why ``op`` cannot work on so many lanes, or an empty string."""
    if width <= target.subgroup_size:
        return ""
    what = what or f"of {width} work-items"
    return f"'{op.name}' {what}, where a subgroup has {target.subgroup_size}"


def _all_reduce_refusal(op: ir.Operation, target: Capabilities) -> str:
    element, widest = op.operands[0].type, target.widest_all_reduce
    if widest and isinstance(element, ir.IntegerType) and element.width > widest:
        return (
            f"'{op.name}' of {element}: it supports at most {widest} bits; reduce wider integers with "
            "gpu.subgroup_reduce and workgroup memory"
        )
    if "uniform" in op.attributes or is_reached_by_all(op):
        return ""
    return (
        f"'{op.name}' without `uniform`: all work-items of a workgroup must reach it, and some may not; "
        "write `uniform` if all do"
    )


def _variable_refusal(op: ir.Operation, target: Capabilities) -> str:
    if target.private_variables or _PRIVATE not in str(op.attributes["type"]):
        return ""
    return f"'{op.name}' in private memory: {target.devices} have no variables there; use memref.alloca"


def _lane_0_refusal(op: ir.Operation, target: Capabilities) -> str:
    """Return why the region of ``op`` cannot run on the first lane, or an empty string."""
    if (size := op.attributes["warp_size"].value) != target.subgroup_size:
        return f"'{op.name}' of {size} work-items, where a subgroup has {target.subgroup_size}"
    arguments = zip(op.operands, (op.operands[0], *op.regions[0].blocks[0].arguments), strict=True)
    moved = [v.type for v, inside in arguments if v.type != inside.type] + [r.type for r in op.results]
    for given in moved:
        if not scalar_bits(element_type(given)) or isinstance(given, ir.MemRefType):
            return f"'{op.name}' returns {given}, which lanes cannot exchange; return numbers or vectors"
    if moved and not target.exchanges_lanes:
        return f"'{op.name}' needs lanes to exchange values, which this chip cannot do"
    return ""


def _function_refusal(op: ir.Operation, target: Capabilities) -> str:
    types = op.attributes["function_type"].value.inputs
    for number, given in enumerate(types, 1):
        if is_kernel(op) and not isinstance(given, _PARAMETER_CLASSES) and _NO_PARAMETERS.match(str(given)):
            return (
                f"parameter {number} of the kernel is of type {given}, which a launch cannot pass; "
                "pass memory (memref) or numbers"
            )
        if is_kernel(op) and isinstance(given, ir.FloatType) and ir.FloatType(given).width < _ATOMIC_BITS[0]:
            what = f"parameter {number} of the kernel is of type {given}"
            return f"{what}; pass its bits as i8 and use arith.bitcast"
        if reason := _type_refusal(given, target):
            return f"parameter {number} is of type {given}, {reason}"
    return _attribution_refusal(op, target) if op.name == "gpu.func" and len(op.regions[0].blocks) else ""


def _attribution_refusal(op: ir.Operation, target: Capabilities) -> str:
    """Check the sizes and spaces of workgroup and private memory.

    Upstream uses space 5 for private memory of AMD's kernels, and none for all others.
    """
    shared, private = attributions(op)
    for value in (*shared, *private):
        what = "private" if value in private else "workgroup"
        if not value.type.has_static_shape:
            return (
                f"{what} memory of type {value.type}: write its size; "
                "gpu.dynamic_shared_memory has a size that each launch chooses"
            )
        if what == "workgroup" and value.type.memory_space is None and list(value.uses):
            return f"workgroup memory of type {value.type}: write {_WORKGROUP} for its space"
    used = [value.type for value in shared if list(value.uses)]
    size = sum(math.prod(kind.shape) * (element_bytes(kind.element_type) or 0) for kind in used)
    if target.workgroup_bytes is not None and size > target.workgroup_bytes:
        return (
            f"the kernel has {size:,} {_OF_WORKGROUP}, and a workgroup can have "
            f"{target.workgroup_bytes:,} on this chip; use less, or gpu.dynamic_shared_memory"
        )
    for value in private:
        space = value.type.memory_space
        number = ir.IntegerAttr(space).value if isinstance(space, ir.IntegerAttr) else 0
        if (space is None or number) and number != target.private_space:
            return (
                f"private memory of type {value.type}: write {_PRIVATE} for its space, which all targets have"
            )
    return ""


def _conversion_refusal(op: ir.Operation, _: Capabilities) -> str:
    integer = getattr(op.operands[0].type, "element_type", op.operands[0].type)
    if integer.width > _WIDEST_CONVERTED:
        return f"'{op.name}' of {integer}: integers of at most {_WIDEST_CONVERTED} bits become floats"
    return ""


def _allocation_refusal(op: ir.Operation, _: Capabilities) -> str:
    space = str(op.results[0].type.memory_space)
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
        if given.scalable:
            return "whose length no target knows; use a vector of fixed length"
        return ""
    if isinstance(given, ir.MemRefType):
        return _memory_refusal(given, target)
    if type(given) is ir.Type and str(given) in _WIDE_FLOATS and not target.wide_floats:
        return "which GPUs have no arithmetic for"
    return ""


def _memory_refusal(memory: ir.MemRefType, target: Capabilities) -> str:
    if strides_and_offset(memory) is None:
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
    where = "intrin" if op.name == "llvm.call_intrinsic" else "callee"
    name = str(op.attributes[where].value) if where in op.attributes else ""
    if where != "intrin" and not name.startswith(llvm.PREFIX):
        return ""
    owner = name.removeprefix(llvm.PREFIX).partition(".")[0]
    if owner in _INTRINSICS and owner not in target.intrinsics:
        return f"intrinsic {name!r} is an instruction of {_INTRINSICS[owner]}"
    # A called function may also have a name of an earlier LLVM, which LLVM converts.
    return llvm.unknown(name) if where == "intrin" and not llvm.is_known(name) else ""


def _atomic_refusal(op: ir.Operation, _: Capabilities) -> str:
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


_BY_NAME: dict[str, Callable[[ir.Operation, Capabilities], str]] = {
    "arith.sitofp": _conversion_refusal,
    "arith.uitofp": _conversion_refusal,
    "func.call": _intrinsic_refusal,
    "func.func": _function_refusal,
    "gpu.all_reduce": _all_reduce_refusal,
    "gpu.func": _function_refusal,
    "gpu.printf": lambda op, _: printf.refusal(op),
    "gpu.rotate": lambda op, target: _width_refusal(op, op.attributes["width"].value, target),
    "gpu.shuffle": lambda op, target: _width_refusal(op, constant_integer(op.operands[2]) or 0, target),
    "gpu.subgroup_reduce": _cluster_refusal,
    "gpu.warp_execute_on_lane_0": _lane_0_refusal,
    "llvm.call": _intrinsic_refusal,
    "llvm.call_intrinsic": _intrinsic_refusal,
    "memref.alloc": _allocation_refusal,
    "memref.atomic_rmw": _atomic_refusal,
    "memref.generic_atomic_rmw": _atomic_refusal,
    "memref.global": _variable_refusal,
}
