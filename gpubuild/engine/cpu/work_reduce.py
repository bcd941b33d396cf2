"""Work reduce: ``gpu.all_reduce`` over an array with an element for each work-item."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.cpu.chunks import LANES
from gpubuild.engine.cpu.item_loops import EQUAL, Extents, compare, for_loop, if_op, set_operands
from gpubuild.engine.cpu.slots import CannotFissionError
from gpubuild.engine.cpu.uniformity import operations, terminator
from gpubuild.engine.emit import Emitter

_ROUNDS = 10  # halve 1,024 work-items until one is left
_FLOAT = {
    "add": "arith.addf",
    "mul": "arith.mulf",
    "minnumf": "arith.minnumf",
    "maxnumf": "arith.maxnumf",
    "minimumf": "arith.minimumf",
    "maximumf": "arith.maximumf",
}
_INTEGER = {
    "add": "arith.addi",
    "mul": "arith.muli",
    "minsi": "arith.minsi",
    "maxsi": "arith.maxsi",
    "minui": "arith.minui",
    "maxui": "arith.maxui",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
}


def reduce_slot(op: ir.Operation, slot: ir.Value, extents: Extents, emit: Emitter) -> ir.Value:
    """Combine the elements of ``slot`` as ``op`` says; uses the slot up.

    A workgroup of a multiple of 64 work-items first becomes 64 sums; then, and in others at once, each
    round adds the upper half to the lower half. So the loops vectorise, those over 64 sums have lengths
    that LLVM knows, and rounding errors of sums grow slowly with the size.
    """
    rest = emit.binary("arith.andi", extents.items, emit.constant(LANES - 1))
    even = compare(emit, EQUAL, rest, extents.zero)
    both = if_op(emit, even, [], 2)
    lanes, halves = (Emitter(terminator(region.blocks[0])) for region in both.regions)
    rows = for_loop(lanes, lanes.constant(LANES), extents.items, lanes.constant(LANES)).regions[0].blocks[0]
    _add_upper(op, slot, Emitter(terminator(rows)), extents, rows.arguments[0], lanes.constant(LANES))
    half = LANES // 2
    while half:
        size = lanes.constant(half)
        _add_upper(op, slot, lanes, extents, size, size)
        half //= 2
    rounds = for_loop(halves, extents.zero, halves.constant(_ROUNDS), extents.one, [extents.items])
    body = rounds.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    left = body.arguments[1]
    middle = inside.binary("arith.shrui", inside.binary("arith.addi", left, extents.one), extents.one)
    _add_upper(op, slot, inside, extents, middle, inside.binary("arith.subi", left, middle))
    set_operands(end, [middle])
    return emit.op("memref.load", [slot, extents.zero], [op.results[0].type]).results[0]


def _add_upper(
    op: ir.Operation, slot: ir.Value, emit: Emitter, extents: Extents, start: ir.Value, count: ir.Value
) -> None:
    """Combine the first ``count`` elements with those from ``start`` on."""
    loop = for_loop(emit, extents.zero, count, extents.one)
    place = Emitter(terminator(loop.regions[0].blocks[0]))
    at = loop.regions[0].blocks[0].arguments[0]
    kind = op.results[0].type
    low = place.op("memref.load", [slot, at], [kind]).results[0]
    high = place.op("memref.load", [slot, place.binary("arith.addi", at, start)], [kind]).results[0]
    place.op("memref.store", [_combine(op, low, high, place), slot, at], [])


def _combine(op: ir.Operation, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
    if "op" not in op.attributes:
        return _inline(op, low, high, emit)
    word = str(op.attributes["op"]).rpartition(" ")[2].rstrip(">")
    floats = not isinstance(low.type, ir.IndexType | ir.IntegerType)
    name = (_FLOAT if floats else _INTEGER).get(word)
    if name is None:
        raise CannotFissionError(f"gpu.all_reduce {word} of {low.type}")
    return emit.binary(name, low, high)


def _inline(op: ir.Operation, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
    """The op's own region, which must not use values from outside it."""
    blocks = op.regions[0].blocks
    if len(blocks) != 1:
        raise CannotFissionError("gpu.all_reduce with branches")
    known: dict[ir.Value, ir.Value] = dict(zip(blocks[0].arguments, (low, high), strict=True))
    end = terminator(blocks[0])
    for inner in operations(blocks[0]):
        if len(inner.regions) or any(value not in known for value in inner.operands):
            raise CannotFissionError("gpu.all_reduce that uses values from outside its region")
        if inner == end:
            break
        new = emit.copy(inner)
        for index, value in enumerate(list(inner.operands)):
            new.operands[index] = known[value]
        known.update(zip(inner.results, new.results, strict=True))
    return known[end.operands[0]]
