"""Expansion of ``gpu.all_reduce``, the reduction over a workgroup, to forms that are right on GPUs.

Upstream's lowering assumes subgroups of 32 lanes and ends in a shuffle among as many lanes as there are
subgroups. AMD's lowering of that shuffle takes powers of two only, so that sums over three subgroups were
wrong. In a loop, a fast subgroup that reaches the operation again may overwrite the result before a slow one
has read it, since there is no barrier between.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import following, is_kernel, kernel_module, symbol_name, terminator
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_reduce import combine_op, reduce_to_first_lane
from gpubuild.engine.legalize.subgroup_shuffle import lane_number, last_word
from gpubuild.engine.legalize.workgroup import workgroup_position, workgroup_size

_WORD_BITS = 32
_MOST_WORK_ITEMS = 1024
_WORKGROUP = "#gpu.address_space<workgroup>"
_ONCE = frozenset({"scf.if", "scf.index_switch", "scf.execute_region", "memref.alloca_scope"})


def _widen(op: ir.Operation, _: Lowering) -> None:
    """Reduce values of other widths as 32-bit or 64-bit ones, the only ones that upstream shuffles.

    All work-items reach the operation, or it was refused; upstream needs the attribute for this.
    """
    op.attributes["uniform"] = ir.UnitAttr.get()
    kind = op.operands[0].type
    is_float = isinstance(kind, ir.FloatType)
    bits = ir.FloatType(kind).width if is_float else ir.IntegerType(kind).width
    whole = _WORD_BITS if bits <= _WORD_BITS else 2 * _WORD_BITS
    if bits >= whole:
        return
    wide = ir.F32Type.get() if is_float else ir.IntegerType.get_signless(whole)
    name = str(op.attributes["op"]) if "op" in op.attributes else ""
    widen = "arith.extf" if is_float else "arith.extsi" if "si>" in name else "arith.extui"
    narrow = "arith.truncf" if is_float else "arith.trunci"
    emit = Emitter(op)
    value = emit.value(widen, [op.operands[0]], wide)
    attributes = {key: op.attributes[key] for key in op.attributes}
    reduced = emit.op("gpu.all_reduce", [value], [wide], attributes, regions=1)
    if op.regions[0].blocks:
        block = op.regions[0].blocks[0]
        block.append_to(reduced.regions[0])
        inside = Emitter(block.operations[0].operation)
        for argument in block.arguments:
            inside.convert_argument(argument, wide, narrow)
        end = terminator(block)
        closing = Emitter(end)
        closing.op("gpu.yield", [closing.value(widen, [end.operands[0]], wide)], [])
        end.erase()
    emit.replace(emit.value(narrow, [reduced.results[0]], kind))


def _separate(op: ir.Operation, _: Lowering) -> None:
    """Add a barrier after ``op`` where a launch may reach it again."""
    if not _runs_once(op):
        Emitter(following(op)).op("gpu.barrier", [], [])


def _runs_once(op: ir.Operation) -> bool:
    """Return whether a launch reaches ``op`` at most once: code of a kernel itself, in no loop."""
    around, block = op.parent.operation, op.block
    while around.name in _ONCE:
        if len(list(block.region.blocks)) > 1:
            return False
        around, block = around.parent.operation, around.block
    return around.name == "gpu.func" and is_kernel(around) and block == around.regions[0].blocks[0]


def _expand(op: ir.Operation, state: Legalization) -> None:
    """Reduce each subgroup by a tree; then every work-item combines the results of the subgroups.

    These are at most 16 or 32 numbers, which all work-items read at the same time. That is no slower than a
    second tree, and right for workgroups that do not fill their last subgroup.
    """
    emit = Emitter(op)
    subgroup_size = state.capabilities.subgroup_size
    value = op.operands[0]

    def combine(at: Emitter, left: ir.Value, right: ir.Value) -> ir.Value:
        if "op" in op.attributes:
            return at.binary(combine_op(last_word(op.attributes["op"]), left.type), left, right)
        return at.inline(op.regions[0].blocks[0], [left, right])[0]

    partial = reduce_to_first_lane(emit, value, subgroup_size, combine)
    name, memory = _memory(op, value.type, _MOST_WORK_ITEMS // subgroup_size)
    symbol = {"name": ir.FlatSymbolRefAttr.get(name)}
    buffer = emit.value("memref.get_global", [], memory, symbol)
    size = emit.constant(subgroup_size)
    position = workgroup_position(emit)
    zero = emit.constant(0, ir.IntegerType.get_signless(_WORD_BITS))
    first = emit.compare(Compare.EQ, lane_number(emit), zero)
    subgroup = emit.binary("arith.divui", position, size)
    branch = emit.op("scf.if", [first], [], regions=2)
    inside = emit.inside(branch.regions[0].blocks.append())
    inside.op("memref.store", [partial, buffer, subgroup], [])
    inside.op("scf.yield", [], [])
    emit.op("gpu.barrier", [], [])
    rounded = emit.binary("arith.addi", workgroup_size(emit), emit.constant(subgroup_size - 1))
    count = emit.binary("arith.divui", rounded, size)
    start = emit.value("memref.load", [buffer, emit.constant(0)], value.type)

    def add_subgroup(at: Emitter, index: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
        return [combine(at, total[0], at.value("memref.load", [buffer, index], value.type))]

    emit.replace(emit.loop(count, [start], add_subgroup, lower=emit.constant(1))[0])


def _expand_in_function(op: ir.Operation, state: Legalization) -> None:
    """Expand ``op`` where upstream's conversion, which looks into kernels only, leaves it."""
    around = op.parent.operation
    while around.name not in ("gpu.func", "func.func"):
        around = around.parent.operation
    if around.name == "func.func":
        _expand(op, state)


def _memory(op: ir.Operation, element: ir.Type, count: int) -> tuple[str, ir.Type]:
    """Add workgroup memory of ``count`` elements to the gpu.module; return its name and type."""
    body = kernel_module(op).regions[0].blocks[0]
    names = {symbol_name(view.operation) for view in body}
    name = next(n for number in range(len(names) + 1) if (n := f"all_reduce_{number}") not in names)
    kind = ir.MemRefType.get([count], element, memory_space=ir.Attribute.parse(_WORKGROUP))
    ir.Operation.create(
        "memref.global",
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(kind),
        },
        loc=op.location,
        ip=ir.InsertionPoint.at_block_begin(body),
    )
    return name, kind


WIDEN = rewriting("widen-all-reduce", {"gpu.all_reduce": _widen})
SEPARATE = rewriting("separate-all-reduces", {"gpu.all_reduce": _separate})
EXPAND = rewriting("expand-all-reduce", {"gpu.all_reduce": _expand})
EXPAND_IN_FUNCTIONS = rewriting("expand-all-reduce-in-functions", {"gpu.all_reduce": _expand_in_function})
