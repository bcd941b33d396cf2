"""Work reduce: ``gpu.all_reduce`` over an array with an element for each work-item."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.cpu.chunks import LANES
from gpubuild.engine.cpu.item_loops import EQUAL, Extents, compare, for_loop, if_op, set_operands
from gpubuild.engine.cpu.slots import CannotFissionError
from gpubuild.engine.cpu.uniformity import operations, terminator
from gpubuild.engine.emit import Emitter

_ROUNDS = 10  # halve 1,024 work-items until one is left
_IN_VECTORS = frozenset({"f32", "f64", "i8", "i16", "i32", "i64", "index"})
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

    A workgroup of a multiple of 64 work-items first becomes 64 sums, in registers if they are of a usual
    type; then, and in others at once, each round adds the upper half to the lower half. So rounding errors
    of sums grow slowly with the size.
    """
    kind = op.results[0].type
    rest = emit.binary("arith.andi", extents.items, emit.constant(LANES - 1))
    even = compare(emit, EQUAL, rest, extents.zero)
    both = if_op(emit, even, [kind], 2)
    ends = [terminator(region.blocks[0]) for region in both.regions]
    lanes, halves = map(Emitter, ends)
    if "op" in op.attributes and str(kind) in _IN_VECTORS:
        set_operands(ends[0], [_in_registers(op, slot, lanes, extents)])
    else:
        _in_memory(op, slot, lanes, extents)
        set_operands(ends[0], [_first(op, slot, lanes, extents)])
    rounds = for_loop(halves, extents.zero, halves.constant(_ROUNDS), extents.one, [extents.items])
    body = rounds.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    left = body.arguments[1]
    middle = inside.binary("arith.shrui", inside.binary("arith.addi", left, extents.one), extents.one)
    _add_upper(op, slot, inside, extents, middle, inside.binary("arith.subi", left, middle))
    set_operands(end, [middle])
    set_operands(ends[1], [_first(op, slot, halves, extents)])
    result: ir.Value = both.results[0]
    return result


def _first(op: ir.Operation, slot: ir.Value, emit: Emitter, extents: Extents) -> ir.Value:
    result: ir.Value = emit.op("memref.load", [slot, extents.zero], [op.results[0].type]).results[0]
    return result


def _in_registers(op: ir.Operation, slot: ir.Value, emit: Emitter, extents: Extents) -> ir.Value:
    """The result for a multiple of 64 work-items, as operations on vectors."""
    kind = op.results[0].type
    wide = ir.VectorType.get([LANES], kind)
    lanes = emit.constant(LANES)
    start = emit.op("vector.load", [slot, extents.zero], [wide]).results[0]
    rows = for_loop(emit, lanes, extents.items, lanes, [start])
    body = rows.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    more = inside.op("vector.load", [slot, body.arguments[0]], [wide]).results[0]
    set_operands(end, [_combine(op, body.arguments[1], more, inside)])
    sums = rows.results[0]
    half = LANES // 2
    while half:
        part = ir.VectorType.get([half], kind)
        low, high = (
            emit.op(
                "vector.shuffle",
                [sums, sums],
                [part],
                {"mask": ir.DenseI64ArrayAttr.get(range(first, first + half))},
            ).results[0]
            for first in (0, half)
        )
        sums = _combine(op, low, high, emit)
        half //= 2
    at = {"static_position": ir.DenseI64ArrayAttr.get([0])}
    result: ir.Value = emit.op("vector.extract", [sums], [kind], at).results[0]
    return result


def _in_memory(op: ir.Operation, slot: ir.Value, emit: Emitter, extents: Extents) -> None:
    """The same for types and operations that vectors do not have; the first element becomes the result."""
    lanes = emit.constant(LANES)
    rows = for_loop(emit, lanes, extents.items, lanes).regions[0].blocks[0]
    _add_upper(op, slot, Emitter(terminator(rows)), extents, rows.arguments[0], lanes)
    half = LANES // 2
    while half:
        size = emit.constant(half)
        _add_upper(op, slot, emit, extents, size, size)
        half //= 2


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
    floats = not isinstance(op.results[0].type, ir.IndexType | ir.IntegerType)
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
