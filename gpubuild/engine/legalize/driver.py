"""Rewrites of gpu-dialect code that upstream's conversions cannot lower, made before they run.

Each function here takes one op and puts plain ops in its place. What no rewrite can help is refused
by :func:`prepare` with a message that points at the op.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.amd import ops, printf
from gpubuild.engine.backends.nvidia import ops as nvidia_ops
from gpubuild.engine.backends.nvidia import tensor_cores
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.legalize import (
    arith_expansions,
    booleans,
    participants,
    softmax,
    subgroup_shuffle,
    unsupported_ops,
    vectors,
)
from gpubuild.engine.legalize import printf as legalize_printf
from gpubuild.engine.legalize.all_reduce import expand_all_reduce
from gpubuild.engine.legalize.composite_memory_ops import make_plain
from gpubuild.engine.legalize.small_floats import expand_small_floats
from gpubuild.engine.legalize.subgroup_reduce import (
    expand_subgroup_reduce,
    workgroup_position,
    workgroup_size,
)
from gpubuild.engine.legalize.upstream_patterns import apply_patterns
from gpubuild.errors import Diagnostic, StepError
from gpubuild.targets.target import Kind

_FAST = "#arith.fastmath<fast>"
_FOREIGN_DIALECTS = {
    Kind.NVVM: {"rocdl": "AMD", "amdgpu": "AMD"},
    Kind.CPU: {"rocdl": "AMD", "amdgpu": "AMD"},
    Kind.ROCDL: {"nvvm": "NVIDIA", "nvgpu": "NVIDIA"},
}
# LLVM wants library calls for these, which devices do not have, and aborts. The bindings have no class
# for them.
_WIDE_FLOATS = frozenset({"f80", "f128"})
_WORD_BITS = 32
_CLUSTER_OPS = frozenset(
    {"gpu.cluster_id", "gpu.cluster_dim", "gpu.cluster_block_id", "gpu.cluster_dim_blocks"}
)
_MEMORY_OPERAND = {"memref.load": 0, "memref.store": 1, "vector.load": 0, "vector.store": 1,
                   "vector.transfer_read": 0, "vector.transfer_write": 1}  # fmt: skip
_LANE_EXCHANGES = frozenset(
    {"gpu.shuffle", "gpu.rotate", "gpu.all_reduce", "gpu.subgroup_reduce", "gpu.subgroup_broadcast"}
)
_MATRIX_ELEMENT = re.compile(r"x([a-z]+\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the rewrites need to know about a target. A subgroup has ``subgroup_size`` work-items."""

    kind: Kind
    subgroup_size: int
    exchanges_lanes: bool = True  # work-items of a subgroup can read each other's registers
    clusters: bool = True  # of workgroups
    multiplies_matrices: bool = True  # has units for gpu.subgroup_mma_compute
    fast_math: bool = False
    name: str = ""
    chip: str = ""  # of NVIDIA; some instructions are in some of them only
    amd_chip: str = ""
    ptx: int = 0  # the PTX version that the user asks for, such as 78; 0: any


def prepare(module: ir.Module, machine: Machine, *, source: SourceText | None = None) -> None:
    """Rewrite everything inside ``module`` in place. Raises ``StepError`` for what is impossible."""
    work: list[tuple[Callable[[ir.Operation, Machine], None], ir.Operation]] = []
    refused: list[Diagnostic] = []
    lines = source or SourceText()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if reason := _refusal(op, machine):
            location, line = locate(op.location, lines)
            refused.append(Diagnostic(message=reason, location=location, source_line=line))
        if (rewrite := _REWRITES.get(op.name)) is not None:
            work.append((rewrite, op))
        if machine.fast_math and "fastmath" in op.attributes:
            op.attributes["fastmath"] = ir.Attribute.parse(_FAST)
        return ir.WalkResult.ADVANCE

    make_plain(module)
    booleans.lower_structured(module, "gpu.module")
    module.operation.walk(visit)
    if refused:
        raise StepError(
            f"target {machine.name} cannot compile this module"
            if machine.name
            else "this target cannot compile the module",
            diagnostics=refused,
            hint="leave this target out for the module (`modules:` in targets.yaml), or remove the operation",
        )
    for rewrite, op in work:
        rewrite(op, machine)
    expand_small_floats(module)
    apply_patterns(module)


def prepare_host(module: ir.Module, *, source: SourceText | None = None) -> None:
    """The part of :func:`prepare` that host code needs: memory that upstream's conversion fails on.

    Raises ``StepError`` for elements of 2 to 7 bits.
    """
    work: list[ir.Operation] = []
    refused: list[Diagnostic] = []
    lines = source or SourceText()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _HOST_REWRITES:
            work.append(op)
            if reason := _narrow_memory(op):
                location, line = locate(op.location, lines)
                refused.append(Diagnostic(message=reason, location=location, source_line=line))
        return ir.WalkResult.ADVANCE

    make_plain(module)
    booleans.lower_structured(module, "func.func")
    module.operation.walk(visit)
    if refused:
        raise StepError("host code cannot be compiled", diagnostics=refused)
    for op in work:
        _HOST_REWRITES[op.name](op)


def _narrow_memory(op: ir.Operation) -> str:
    if (place := _MEMORY_OPERAND.get(op.name)) is None:
        return ""
    element = _element_type(op.operands[place])
    if isinstance(element, ir.FloatType) and ir.FloatType(element).width < 8:
        return f"memory of {element} elements is not supported; keep their bits in i8 and use arith.bitcast"
    if isinstance(element, ir.IntegerType) and 1 < ir.IntegerType(element).width < 8:
        return f"memory of {element} elements is not supported; use i8"
    return ""


def _refusal(op: ir.Operation, machine: Machine) -> str:
    dialect = op.name.partition(".")[0]
    if vendor := _FOREIGN_DIALECTS[machine.kind].get(dialect):
        return f"'{op.name}' is an instruction of {vendor} GPUs"
    if machine.chip and (reason := nvidia_ops.chip_refusal(op, machine.chip, machine.ptx)):
        return reason
    if machine.amd_chip and (reason := ops.chip_refusal(op, machine.amd_chip)):
        return reason
    if reason := unsupported_ops.refusal(op, machine.kind, machine.subgroup_size):
        return reason
    if op.name in _LANE_EXCHANGES and not machine.exchanges_lanes:
        return f"'{op.name}' needs lanes to exchange values, which this chip cannot do"
    if op.name in _CLUSTER_OPS and not machine.clusters:
        return f"'{op.name}' needs clusters of workgroups, which this chip does not have"
    if op.name == "gpu.warp_execute_on_lane_0" and (len(op.operands) > 1 or len(op.results)):
        return "'gpu.warp_execute_on_lane_0' that takes or gives values must be distributed first"
    if any(type(r.type) is ir.Type and str(r.type) in _WIDE_FLOATS for r in op.results):
        return f"'{op.name}' works on {op.results[0].type}, which GPUs have no arithmetic for"
    return _narrow_memory(op)


def _subgroup_size(op: ir.Operation, machine: Machine) -> None:
    if machine.kind is Kind.ROCDL:
        return  # upstream lowers it to an intrinsic
    emit = Emitter(op)
    emit.replace(emit.constant(machine.subgroup_size))


def _subgroup_id(op: ir.Operation, machine: Machine) -> None:
    """Position of the work-item in its workgroup, x fastest, by the size of a subgroup."""
    emit = Emitter(op)
    emit.replace(emit.binary("arith.divui", workgroup_position(emit), emit.constant(machine.subgroup_size)))


def _num_subgroups(op: ir.Operation, machine: Machine) -> None:
    """Size of the workgroup over the size of a subgroup, rounded up."""
    emit = Emitter(op)
    total = emit.binary("arith.addi", workgroup_size(emit), emit.constant(machine.subgroup_size - 1))
    emit.replace(emit.binary("arith.divui", total, emit.constant(machine.subgroup_size)))


def _subgroup_reduce(op: ir.Operation, machine: Machine) -> None:
    expand_subgroup_reduce(op, machine.subgroup_size, kind=machine.kind, chip=machine.chip)


def _shuffle(op: ir.Operation, machine: Machine) -> None:
    subgroup_shuffle.expand_shuffle(op, machine.kind, machine.subgroup_size)


def _rotate(op: ir.Operation, machine: Machine) -> None:
    subgroup_shuffle.expand_rotate(op, machine.kind, machine.subgroup_size)


def _subgroup_broadcast(op: ir.Operation, machine: Machine) -> None:
    subgroup_shuffle.expand_broadcast(op, machine.kind, machine.subgroup_size)


def _all_reduce(op: ir.Operation, machine: Machine) -> None:
    participants.mark_uniform(op)
    expand_all_reduce(op, machine.kind, machine.subgroup_size)


def _execute_on_first_lane(op: ir.Operation, _: Machine) -> None:
    """``gpu.warp_execute_on_lane_0`` without values going in or out is a branch."""
    emit = Emitter(op)
    i1, zero = ir.IntegerType.get_signless(1), emit.constant(0)
    equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
    first = emit.op("arith.cmpi", [op.operands[0], zero], [i1], equal).results[0]
    branch = emit.op("scf.if", [first], [], regions=2)
    block = op.regions[0].blocks[0]
    block.append_to(branch.regions[0])
    end = block.operations[len(block.operations) - 1].operation
    Emitter(end).op("scf.yield", [], [])
    end.erase()
    op.erase()


def _matrix_elementwise(op: ir.Operation, _: Machine) -> None:
    """Subtraction and negation of matrices, which upstream's conversion aborts on, by way of ``· -1``."""
    name = subgroup_shuffle.last_word(op.attributes["opType"])
    if name not in {"subf", "negatef"}:
        return
    emit = Emitter(op)
    kind = op.results[0].type
    element = ir.Type.parse(_MATRIX_ELEMENT.findall(str(kind))[0])
    scalar = emit.op("arith.constant", [], [element], {"value": ir.FloatAttr.get(element, -1.0)})
    minus = emit.op("gpu.subgroup_mma_constant_matrix", [scalar.results[0]], [kind])

    def combine(function: str, left: ir.Value, right: ir.Value) -> ir.Value:
        attributes = {"opType": ir.Attribute.parse(f"#gpu<mma_element_wise {function}>")}
        return emit.op("gpu.subgroup_mma_elementwise", [left, right], [kind], attributes).results[0]

    negated = combine("mulf", op.operands[len(op.operands) - 1], minus.results[0])
    emit.replace(negated if name == "negatef" else combine("addf", op.operands[0], negated))


def _atomic_region(op: ir.Operation, _: Machine | None = None) -> None:
    """Make ``memref.generic_atomic_rmw`` on floats work on integers of the same width.

    Compare-and-exchange takes integers only. The two memref types lower to one and the same LLVM
    type, so that the cast between them disappears.
    """
    element = op.results[0].type
    if not _is_float(element):
        return
    integer = ir.IntegerType.get_signless(_width(element))
    emit = Emitter(op)
    memory = emit.cast(op.operands[0], _with_element(op.operands[0].type, integer))
    atomic = emit.op(
        "memref.generic_atomic_rmw", [memory, *list(op.operands)[1:]], [integer], regions=1
    ).operation
    old_block = op.regions[0].blocks[0]
    # Moving the block keeps its ops; its one argument then gets the integer type, seen through a cast.
    old_block.append_to(atomic.regions[0])
    argument = old_block.arguments[0]
    inside = Emitter(old_block.operations[0].operation)
    value = inside.op("arith.bitcast", [argument], [element])
    argument.replace_all_uses_except(value.results[0], value.operation)
    argument.set_type(integer)
    end = old_block.operations[len(old_block.operations) - 1].operation
    closing = Emitter(end)
    bits = closing.op("arith.bitcast", [end.operands[0]], [integer]).results[0]
    closing.op("memref.atomic_yield", [bits], [])
    end.erase()
    emit.replace(emit.op("arith.bitcast", [atomic.results[0]], [element]).results[0])


def _access(op: ir.Operation, _: Machine | None = None) -> None:
    """Bytes in place of i1, then rows."""
    access = booleans.access_bytes(op)
    if split := _SPLITS.get(access.name):
        split(access)


def _copy(op: ir.Operation, _: Machine) -> None:
    emit = Emitter(op)
    for number, memory in enumerate(list(op.operands)):
        if isinstance(memory.type, ir.MemRefType):
            op.operands[number] = booleans.bytes_of(emit, memory)
    arith_expansions.expand_copy(op)


def _is_infinite(op: ir.Operation, machine: Machine) -> None:
    if machine.kind is Kind.ROCDL:  # upstream lowers it elsewhere
        arith_expansions.expand_is_infinite(op)


def _sine_and_cosine(op: ir.Operation, machine: Machine) -> None:
    """In two calls for AMD: the instruction upstream comes to is coarse, and missing for f64."""
    if machine.kind is Kind.ROCDL:
        arith_expansions.expand_sincos(op)


def _printf(op: ir.Operation, machine: Machine) -> None:
    legalize_printf.promote_printf_arguments(op)
    _message(op, machine)


def _message(op: ir.Operation, machine: Machine) -> None:
    if machine.kind is Kind.ROCDL:
        printf.expand(op)


def _kernel(op: ir.Operation, machine: Machine) -> None:
    nvidia_ops.pass_descriptors_as_pointers(op)
    if machine.kind is Kind.NVVM:
        nvidia_ops.widen_parameters(op)


def _atomic(op: ir.Operation, _: Machine) -> None:
    loop = arith_expansions.expand_atomic_product(op)
    if loop is not None:
        _atomic_region(loop)


_SPLITS = {"vector.load": vectors.split_load, "vector.store": vectors.split_store}
_HOST_REWRITES: dict[str, Callable[[ir.Operation], None]] = {
    "gpu.launch_func": nvidia_ops.launch_with_pointers,
    **dict.fromkeys(booleans.ACCESSES, _access),
    "memref.generic_atomic_rmw": _atomic_region,
}
_REWRITES: dict[str, Callable[[ir.Operation, Machine], None]] = {
    **dict.fromkeys(booleans.ACCESSES, _access),
    "cf.assert": _message,
    "gpu.printf": _printf,
    "gpu.subgroup_size": _subgroup_size,
    "gpu.subgroup_id": _subgroup_id,
    "gpu.num_subgroups": _num_subgroups,
    "gpu.subgroup_reduce": _subgroup_reduce,
    "gpu.shuffle": _shuffle,
    "gpu.rotate": _rotate,
    "gpu.subgroup_broadcast": _subgroup_broadcast,
    "gpu.all_reduce": _all_reduce,
    "gpu.warp_execute_on_lane_0": _execute_on_first_lane,
    "gpu.subgroup_mma_elementwise": _matrix_elementwise,
    "gpu.func": _kernel,
    "memref.generic_atomic_rmw": _atomic_region,
    "memref.atomic_rmw": _atomic,
    "memref.copy": _copy,
    "nvgpu.mma.sync": lambda op, _: tensor_cores.expand_bf16_product(op),
    "vector.extract": lambda op, _: vectors.expand_extract(op),
    "vector.insert": lambda op, _: vectors.expand_insert(op),
    "vector.contract": lambda op, _: arith_expansions.widen_factors(op),
    "linalg.softmax": lambda op, _: softmax.expand_softmax(op),
    "complex.bitcast": lambda op, _: arith_expansions.expand_bitcast(op),
    "arith.sitofp": lambda op, _: arith_expansions.round_integer_once(op),
    "arith.uitofp": lambda op, _: arith_expansions.round_integer_once(op),
    "math.clampf": lambda op, _: arith_expansions.expand_clamp(op),
    "math.isinf": _is_infinite,
    "math.sincos": _sine_and_cosine,
    "math.isnormal": lambda op, _: arith_expansions.expand_is_normal(op),
    "math.ipowi": lambda op, _: arith_expansions.expand_integer_power(op),
}


def _element_type(memory: ir.Value) -> ir.Type:
    return ir.ShapedType(memory.type).element_type


def _with_element(memory: ir.Type, element: ir.Type) -> ir.Type:
    shaped = ir.MemRefType(memory)
    return ir.MemRefType.get(shaped.shape, element, shaped.layout, shaped.memory_space)


def _is_float(kind: ir.Type) -> bool:
    return isinstance(kind, ir.FloatType)


def _width(kind: ir.Type) -> int:
    return int(ir.FloatType(kind).width)
