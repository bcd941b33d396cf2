"""Lane exchange: ``gpu.shuffle`` by way of memory, for code that is about to be cut at its barriers.

Every work-item stores what it gives, then reads what another gave. No wait is needed after that: the
memory is the shuffle's own, and the end of a loop's iteration is a cut as well. Where it is known who reads
whom, and all work-items come, vectors change places in between (engine.backends.cpu.fission.shuffle_vectors).
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.context_arrays import Slots
from gpubuild.engine.backends.cpu.fission.shuffle_vectors import ROW, LaneRow, can_move, sources_of
from gpubuild.engine.backends.cpu.fission.uniformity import WAITS_FOR
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES, below, last_word

FROM_LANE = "gpubuild.from_lane"  # on a load of what another work-item gave, if it takes part
_MOST_ROWS = 6  # of a kernel, a subgroup reduction: each is a loop more for LLVM to compile
_SOURCES = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi"}


def lower_shuffle(
    op: ir.Operation, slots: Slots, item: ir.Value, items: ir.Value, rows: list[LaneRow]
) -> None:
    """Replace ``op``; ``item`` is the work-item's number in its workgroup of ``items``.

    A lane that does not exist, or takes no part, leaves the reader with its own value.
    """
    value, offset, width = op.operands
    slot = slots.make(value.type)
    emit = Emitter(op)
    emit.op("memref.store", [value, slot, item], [])
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
    read = emit.op("memref.load", [slot, place], [value.type], {FROM_LANE: ir.UnitAttr.get()})
    possible = can_move(value.type) and SOME_LANES not in op.attributes and len(rows) < _MOST_ROWS
    sources = sources_of(source, valid, lane) if possible else None
    if sources is not None:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), len(rows))
        barrier.attributes[ROW] = read.attributes[ROW] = number
        rows.append(LaneRow(given=slot, taken=slots.make(value.type), sources=sources))
    moved = read.results[0]
    for old, new in zip(op.results, (moved, valid), strict=True):
        old.replace_all_uses_with(new)
    op.erase()
