"""Shuffles through memory: ``gpu.shuffle`` in code that will be cut at its barriers.

Every work-item stores what it gives, then reads what another gave. No wait is needed after that: the
memory is the shuffle's own, and the end of a loop's iteration is a cut as well. Where source lanes are
known statically and all work-items take part, vectors are shuffled in between (shuffle_vectors).
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.shuffle_vectors import TAKEN, StaticShuffle, can_move, sources_of
from gpubuild.engine.backends.cpu.fission.uniformity import WAITS_FOR, nested, operations
from gpubuild.engine.backends.cpu.fission.workgroup_functions import most_items
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import symbol_name
from gpubuild.engine.legalize.subgroup_reduce import workgroup_position, workgroup_size
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES, below, last_word

FROM_LANE = "gpubuild.from_lane"  # on a load of what another work-item gave, if it takes part
_MOST_STATIC = 6  # of a kernel, a subgroup reduction: each is a loop more for LLVM to compile
_SOURCES = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi"}


def lower_shuffles(function: ir.Operation) -> None:
    """Replace each ``gpu.shuffle`` of ``function`` by a store, a barrier of the subgroup and a load."""
    entry = function.regions[0].blocks[0]
    shuffles = [op for top in operations(entry) for op in nested(top) if op.name == "gpu.shuffle"]
    if not shuffles:
        return
    head = Emitter(entry.operations[0].operation)
    item, items = workgroup_position(head), workgroup_size(head)
    # Lanes that do not exist have elements, too.
    count = -(-most_items(function) // image_layout.SUBGROUP) * image_layout.SUBGROUP
    arrays = ContextArrays(function, f"{symbol_name(function)}.shuffle", count, head)
    static = 0
    for op in shuffles:
        static += _lower(op, arrays, item, items, may_be_static=static < _MOST_STATIC)


def _lower(
    op: ir.Operation, arrays: ContextArrays, item: ir.Value, items: ir.Value, *, may_be_static: bool
) -> bool:
    """Replace ``op``; ``item`` is the work-item's number in its workgroup of ``items``.

    A lane that does not exist, or takes no part, leaves the reader with its own value. Return whether
    the lanes that are read are known statically.
    """
    value, offset, width = op.operands
    array = arrays.make(value.type)
    emit = Emitter(op)
    emit.op("memref.store", [value, array, item], [])
    mask = emit.constant(-1, ir.IntegerType.get_signless(32))
    barrier = emit.op("nvvm.bar.warp.sync", [mask], [], {WAITS_FOR: ir.StringAttr.get(op.name)})
    if SOME_LANES in op.attributes:
        barrier.attributes[SOME_LANES] = ir.UnitAttr.get()
    lane = emit.binary("arith.andi", item, emit.constant(image_layout.SUBGROUP - 1))
    mode = last_word(op.attributes["mode"])
    number = emit.op("arith.index_cast", [lane], [offset.type]).results[0]
    source = emit.binary(_SOURCES[mode], number, offset) if mode in _SOURCES else offset
    valid = below(emit, source, width)
    wide = emit.op("arith.index_castui", [source], [ir.IndexType.get()]).results[0]
    place = emit.binary("arith.addi", emit.binary("arith.subi", item, lane), wide)
    there = emit.binary("arith.andi", below(emit, place, items), valid)
    place = emit.op("arith.select", [there, place, item], [place.type]).results[0]
    read = emit.op("memref.load", [array, place], [value.type], {FROM_LANE: ir.UnitAttr.get()})
    possible = can_move(value.type) and SOME_LANES not in op.attributes and may_be_static
    sources = sources_of(source, valid, lane) if possible else None
    if sources is not None:
        shuffle = StaticShuffle(given=array, taken=arrays.make(value.type), sources=sources)
        shuffle.mark(barrier)
        read.attributes[TAKEN] = shuffle.name
    moved = read.results[0]
    for old, new in zip(op.results, (moved, valid), strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return sources is not None
