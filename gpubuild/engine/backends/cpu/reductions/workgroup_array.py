"""Work reduce: ``gpu.all_reduce`` over an array with an element for each work-item."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_loops import (
    CHUNK_ITEMS,
    Extents,
    for_loop,
    if_op,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.uniformity import terminator
from gpubuild.engine.backends.cpu.reductions.partial_sums import Reduction, total
from gpubuild.engine.ir.builder import Compare, Emitter

_INDEX_BITS = 64


def reduce_array(reduction: Reduction, array: ir.Value, extents: Extents, emit: Emitter) -> ir.Value:
    """Combine the elements of ``array``; uses the array up.

    A workgroup of a multiple of 64 work-items first becomes 64 sums, in registers if they are of a usual
    type; then, and in others at once, each round adds the upper half to the lower half. So rounding errors
    of sums grow slowly with the size.
    """
    rest = emit.binary("arith.andi", extents.items, emit.constant(CHUNK_ITEMS - 1))
    even = emit.compare(Compare.EQ, rest, extents.zero)
    both = if_op(emit, even, [reduction.kind], 2)
    ends = [terminator(region.blocks[0]) for region in both.regions]
    lanes, halves = map(Emitter, ends)
    if reduction.in_vectors:
        set_operands(ends[0], [_in_registers(reduction, array, lanes, extents)])
    else:
        _in_memory(reduction, array, lanes, extents)
        set_operands(ends[0], [_first(reduction, array, lanes, extents)])
    rounds = for_loop(halves, extents.zero, _rounds(halves, extents), extents.one, [extents.items])
    body = rounds.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    left = body.arguments[1]
    middle = inside.binary("arith.shrui", inside.binary("arith.addi", left, extents.one), extents.one)
    _add_upper(reduction, array, inside, extents, middle, inside.binary("arith.subi", left, middle))
    set_operands(end, [middle])
    set_operands(ends[1], [_first(reduction, array, halves, extents)])
    result: ir.Value = both.results[0]
    return result


def _rounds(emit: Emitter, extents: Extents) -> ir.Value:
    """How often the work-items are to be halved until one is left: the logarithm of their number, rounded up.

    LLVM would unroll a loop of 10, which are enough for 1,024, and vectorise the loop inside ten times; for
    workgroups of odd sizes, in each copy of a kernel, that was half of the time a kernel took to compile.
    """
    i64 = ir.IntegerType.get_signless(_INDEX_BITS)
    last = emit.binary("arith.subi", extents.items, extents.one)
    number = emit.op("arith.index_cast", [last], [i64]).results[0]
    zeros = emit.op("math.ctlz", [number], [i64]).results[0]
    bits = emit.op("arith.index_cast", [zeros], [ir.IndexType.get()]).results[0]
    return emit.binary("arith.subi", emit.constant(_INDEX_BITS), bits)


def _first(reduction: Reduction, array: ir.Value, emit: Emitter, extents: Extents) -> ir.Value:
    result: ir.Value = emit.op("memref.load", [array, extents.zero], [reduction.kind]).results[0]
    return result


def _in_registers(reduction: Reduction, array: ir.Value, emit: Emitter, extents: Extents) -> ir.Value:
    """Return the result for a multiple of 64 work-items, as operations on vectors."""
    wide = ir.VectorType.get([CHUNK_ITEMS], reduction.kind)
    lanes = emit.constant(CHUNK_ITEMS)
    start = emit.op("vector.load", [array, extents.zero], [wide]).results[0]
    rows = for_loop(emit, lanes, extents.items, lanes, [start])
    body = rows.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    more = inside.op("vector.load", [array, body.arguments[0]], [wide]).results[0]
    set_operands(end, [reduction.combine(body.arguments[1], more, inside)])
    return total([rows.results[0]], reduction.combine, emit)


def _in_memory(reduction: Reduction, array: ir.Value, emit: Emitter, extents: Extents) -> None:
    """The same for types and operations that vectors do not have; the first element becomes the result."""
    lanes = emit.constant(CHUNK_ITEMS)
    rows = for_loop(emit, lanes, extents.items, lanes).regions[0].blocks[0]
    _add_upper(reduction, array, Emitter(terminator(rows)), extents, rows.arguments[0], lanes)
    half = CHUNK_ITEMS // 2
    while half:
        size = emit.constant(half)
        _add_upper(reduction, array, emit, extents, size, size)
        half //= 2


def _add_upper(
    reduction: Reduction,
    array: ir.Value,
    emit: Emitter,
    extents: Extents,
    start: ir.Value,
    count: ir.Value,
) -> None:
    """Combine the first ``count`` elements with those from ``start`` on."""
    loop = for_loop(emit, extents.zero, count, extents.one)
    place = Emitter(terminator(loop.regions[0].blocks[0]))
    at = loop.regions[0].blocks[0].arguments[0]
    kind = reduction.kind
    low = place.op("memref.load", [array, at], [kind]).results[0]
    high = place.op("memref.load", [array, place.binary("arith.addi", at, start)], [kind]).results[0]
    place.op("memref.store", [reduction.combine(low, high, place), array, at], [])
