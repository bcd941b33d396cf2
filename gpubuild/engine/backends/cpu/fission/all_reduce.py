"""Build ``gpu.all_reduce`` over partial sums of 64 lanes, or over an array of all work-items' values.

The loops over work-items that compute a value also add it, or apply another operation of ``gpu.all_reduce``,
to the partial result of its lane. Which values meet in a lane is the same for all chips and optimisation
levels, and LLVM need not reorder additions to use vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.item_code import copy_with
from gpubuild.engine.backends.cpu.fission.item_loops import (
    CHUNK_ITEMS,
    Extents,
    ItemLoops,
    for_loop,
    if_op,
    open_loop,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import INDEX_BITS, scalar_bits
from gpubuild.support.frozen import frozen

_FLOAT_LIMITS = ("minnumf", "maxnumf", "minimumf", "maximumf")
_INTEGER_LIMITS = ("minsi", "maxsi", "minui", "maxui")
FLOAT = {"add": "arith.addf", "mul": "arith.mulf", **{name: f"arith.{name}" for name in _FLOAT_LIMITS}}
INTEGER = {name: f"arith.{name}i" for name in ("add", "mul", "and", "or", "xor")}
INTEGER |= {name: f"arith.{name}" for name in _INTEGER_LIMITS}
# Values that change no other: -0.0 + -0.0 is -0.0, and operations that ignore a NaN ignore this one.
_FLOAT_IDENTITY = {
    "add": -0.0,
    "mul": 1.0,
    "minnumf": math.nan,
    "maxnumf": math.nan,
    "minimumf": math.inf,
    "maximumf": -math.inf,
}


class Reduction:
    """The operation of a ``gpu.all_reduce``: a named one, or a region."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.kind: ir.Type = op.results[0].type
        self._word = (
            str(op.attributes["op"]).rpartition(" ")[2].rstrip(">") if "op" in op.attributes else None
        )

    @property
    def in_vectors(self) -> bool:
        """Whether :meth:`combine` also works on vectors."""
        return self._word is not None and str(self.kind) in VECTOR_ELEMENTS

    def combine(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """Combine two values. Raises ``CannotFissionError`` where MLIR has no operation for it."""
        if self._word is None:
            return self._inline(low, high, emit)
        floats = not isinstance(self.kind, ir.IndexType | ir.IntegerType)
        name = (FLOAT if floats else INTEGER).get(self._word)
        if name is None:
            raise CannotFissionError(f"gpu.all_reduce {self._word} of {low.type}")
        return emit.binary(name, low, high)

    def identity(self) -> ir.Attribute:
        """Return the value that changes no other one; only for a reduction that is :attr:`in_vectors`."""
        if isinstance(self.kind, ir.FloatType):
            return ir.FloatAttr.get(self.kind, _FLOAT_IDENTITY[self._word or ""])
        most = (1 << scalar_bits(self.kind) - 1) - 1
        whole = {"mul": 1, "minsi": most, "maxsi": -most - 1, "minui": -1, "and": -1}
        return ir.IntegerAttr.get(self.kind, whole.get(self._word or "", 0))

    def _inline(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """Copy the region, which must not use values from outside."""
        blocks = self.op.regions[0].blocks
        if len(blocks) != 1:
            raise CannotFissionError("gpu.all_reduce with branches")
        known: dict[ir.Value, ir.Value] = dict(zip(blocks[0].arguments, (low, high), strict=True))
        for inner in operations(blocks[0]):
            if len(inner.regions) or any(value not in known for value in inner.operands):
                raise CannotFissionError("gpu.all_reduce that uses values from outside its region")
            if inner != terminator(blocks[0]):
                new = copy_with(inner, [known[value] for value in inner.operands], emit)
                known.update(zip(inner.results, new.results, strict=True))
        return known[terminator(blocks[0]).operands[0]]


PIECE_BITS = 256
VECTOR_ELEMENTS = frozenset({"f32", "f64", "i8", "i16", "i32", "i64", "index"})
Combine = Callable[[ir.Value, ir.Value, Emitter], ir.Value]  # two values or vectors, the lower ones first


def load_pieces(memory: ir.Value, start: int, count: int, emit: Emitter) -> list[ir.Value]:
    """Return ``count`` elements, a power of two, as vectors of at most 32 bytes.

    Loops over work-items store vectors of at least this size. A load of the results of two stores would
    wait until both have reached the cache.
    """
    element = ir.MemRefType(memory.type).element_type
    size = min(count, PIECE_BITS // scalar_bits(element))
    kind = ir.VectorType.get([size], element)
    firsts = map(emit.constant, range(start, start + count, size))
    return [emit.op("vector.load", [memory, first], [kind]).results[0] for first in firsts]


def store_pieces(pieces: Sequence[ir.Value], memory: ir.Value, start: int, emit: Emitter) -> None:
    """Store vectors one after the other, from element ``start`` on."""
    for piece in pieces:
        emit.op("vector.store", [piece, memory, emit.constant(start)], [])
        start += _length(piece)


def split(pieces: Sequence[ir.Value], emit: Emitter) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the lower and the upper half."""
    count = len(pieces) // 2
    if count:
        return list(pieces[:count]), list(pieces[count:])
    (whole,) = pieces
    half = _length(whole) // 2
    part = ir.VectorType.get([half], ir.VectorType(whole.type).element_type)
    low, high = (
        emit.op(
            "vector.shuffle",
            [whole, whole],
            [part],
            {"mask": ir.DenseI64ArrayAttr.get(range(first, first + half))},
        ).results[0]
        for first in (0, half)
    )
    return [low], [high]


def halve(pieces: Sequence[ir.Value], combine: Combine, emit: Emitter) -> list[ir.Value]:
    """Combine the upper half with the lower one."""
    low, high = split(pieces, emit)
    return [combine(*pair, emit) for pair in zip(low, high, strict=True)]


def total(pieces: Sequence[ir.Value], combine: Combine, emit: Emitter) -> ir.Value:
    """Combine halves of ``pieces``, a power of two, until one value is left."""
    while len(pieces) > 1 or _length(pieces[0]) > 1:
        pieces = halve(pieces, combine, emit)
    at = {"static_position": ir.DenseI64ArrayAttr.get([0])}
    kind = ir.VectorType(pieces[0].type).element_type
    result: ir.Value = emit.op("vector.extract", [pieces[0]], [kind], at).results[0]
    return result


def _length(vector: ir.Value) -> int:
    return int(ir.VectorType(vector.type).shape[0])


_MOST = 64  # operations that take little more time than storing their results
_ATOMICS = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})


def worth_repeating(ops: Sequence[ir.Operation]) -> bool:
    """Return whether the code of ``ops`` may exist twice, and run work-items in any order.

    It then has few operations, and no calls or atomics, whose results may depend on the order.
    """
    inside = [inner.name for op in ops for inner in nested(op)]
    return len(inside) <= _MOST and not _ATOMICS.intersection(inside) and not any(map(needs_item, ops))


@frozen
class PartialSums:
    """The loops of one reduction under construction.

    ``run`` builds the code of a work-item in existing loops, and returns its value.
    """

    reduction: Reduction
    arrays: ContextArrays
    extents: Extents
    run: Callable[[ItemLoops], ir.Value]

    def build(self, emit: Emitter) -> ir.Value:
        """Build the code of all work-items; return the reduction of their values.

        In a sum of n work-items a value is rounded at most n / 64 + 9 times: n / 64 + 1 for its lane, 2 for
        the rest of a row, and 6 for the sum of all lanes.
        """
        x = self.extents.block_dim[0]
        chunks = emit.binary("arith.andi", x, emit.constant(-CHUNK_ITEMS))
        lanes = self._chunks(chunks, emit)
        both = if_op(emit, emit.compare(Compare.EQ, chunks, x), [piece.type for piece in lanes], 2)
        whole, less = (terminator(region.blocks[0]) for region in both.regions)
        set_operands(whole, lanes)
        set_operands(less, self._rest(lanes, chunks, Emitter(less)))
        return total(list(both.results), self.reduction.combine, emit)

    def _chunks(self, chunks: ir.Value, emit: Emitter) -> list[ir.Value]:
        """Return the partial results after the first ``chunks`` work-items of each row, a multiple of 64."""
        zero = self.extents.zero
        array = self._array(emit, CHUNK_ITEMS)
        y, z, end = self._rows(emit)
        row = Emitter(end)
        at, end = open_loop(row, zero, chunks, row.constant(CHUNK_ITEMS))
        chunk = Emitter(end)
        lane, end = open_loop(chunk, zero, chunk.constant(CHUNK_ITEMS), self.extents.one)
        self._add((Emitter(end).binary("arith.addi", at, lane), y, z), end, array, lane)
        return load_pieces(array, 0, CHUNK_ITEMS, emit)

    def _rest(self, lanes: list[ir.Value], chunks: ir.Value, emit: Emitter) -> list[ir.Value]:
        """Return the partial results after the rest of each row, fewer than 64 work-items, as well.

        A row starts at the lane where the row before ended, so that all lanes get equally many values.
        Behind the last lane it uses 64 more, so that its lanes are neighbours.
        """
        array = self._array(emit, 2 * CHUNK_ITEMS)
        y, z, end = self._rows(emit)
        row = Emitter(end)
        start = ItemLoops.at(self.extents, (chunks, y, z), end).linear
        first = row.binary("arith.andi", start, row.constant(CHUNK_ITEMS - 1))
        rest = row.binary("arith.subi", self.extents.block_dim[0], chunks)
        column, end = open_loop(row, self.extents.zero, rest, self.extents.one)
        inside = Emitter(end)
        ids = (inside.binary("arith.addi", chunks, column), y, z)
        self._add(ids, end, array, inside.binary("arith.addi", first, column))
        for begin in (0, CHUNK_ITEMS):
            more = load_pieces(array, begin, CHUNK_ITEMS, emit)
            lanes = [self.reduction.combine(*pair, emit) for pair in zip(lanes, more, strict=True)]
        return lanes

    def _rows(self, emit: Emitter) -> tuple[ir.Value, ir.Value, ir.Operation]:
        """Create a loop over all rows; return y, z and the end of its body."""
        z, end = open_loop(emit, self.extents.zero, self.extents.block_dim[2], self.extents.one)
        y, end = open_loop(Emitter(end), self.extents.zero, self.extents.block_dim[1], self.extents.one)
        return y, z, end

    def _add(
        self, ids: tuple[ir.Value, ir.Value, ir.Value], end: ir.Operation, array: ir.Value, lane: ir.Value
    ) -> None:
        """Build the code of the work-item with these ids, and combine its value with that of its lane."""
        loops = ItemLoops.at(self.extents, ids, end)
        value = self.run(loops)
        emit = loops.emit
        old = emit.op("memref.load", [array, lane], [value.type]).results[0]
        emit.op("memref.store", [self.reduction.combine(old, value, emit), array, lane], [])

    def _array(self, emit: Emitter, count: int) -> ir.Value:
        """Return an array of ``count`` partial results, with the identity in each."""
        array = self.arrays.make(self.reduction.kind, count)
        kind = ir.VectorType.get([count], self.reduction.kind)
        splat = ir.DenseElementsAttr.get_splat(kind, self.reduction.identity())
        value = emit.op("arith.constant", [], [kind], {"value": splat}).results[0]
        emit.op("vector.store", [value, array, self.extents.zero], [])
        return array


def reduce_array(reduction: Reduction, array: ir.Value, extents: Extents, emit: Emitter) -> ir.Value:
    """Combine the elements of ``array``, which is overwritten.

    In a workgroup of a multiple of 64 work-items they first become 64 sums, in registers if their type is
    common. Then each iteration adds the upper half to the lower half, so that rounding errors of sums grow
    slowly with the size.
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
    loop = for_loop(halves, extents.zero, _halvings(halves, extents), extents.one, [extents.items])
    body = loop.regions[0].blocks[0]
    end = terminator(body)
    inside = Emitter(end)
    left = body.arguments[1]
    middle = inside.binary("arith.shrui", inside.binary("arith.addi", left, extents.one), extents.one)
    _add_upper(reduction, array, inside, extents, middle, inside.binary("arith.subi", left, middle))
    set_operands(end, [middle])
    set_operands(ends[1], [_first(reduction, array, halves, extents)])
    return both.results[0]


def _halvings(emit: Emitter, extents: Extents) -> ir.Value:
    """Return the logarithm of the number of work-items, rounded up: the halvings until one is left.

    A constant, 10 for 1,024, would not do: LLVM would unroll the loop and vectorise its body ten times, which
    was half of the time to compile a kernel.
    """
    i64 = ir.IntegerType.get_signless(INDEX_BITS)
    last = emit.binary("arith.subi", extents.items, extents.one)
    number = emit.op("arith.index_cast", [last], [i64]).results[0]
    zeros = emit.op("math.ctlz", [number], [i64]).results[0]
    bits = emit.op("arith.index_cast", [zeros], [ir.IndexType.get()]).results[0]
    return emit.binary("arith.subi", emit.constant(INDEX_BITS), bits)


def _first(reduction: Reduction, array: ir.Value, emit: Emitter, extents: Extents) -> ir.Value:
    return emit.op("memref.load", [array, extents.zero], [reduction.kind]).results[0]


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
    """Combine without vectors, for types and operations that they lack, into the first element."""
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
    at, end = open_loop(emit, extents.zero, count, extents.one)
    body, kind = Emitter(end), reduction.kind
    low = body.op("memref.load", [array, at], [kind]).results[0]
    high = body.op("memref.load", [array, body.binary("arith.addi", at, start)], [kind]).results[0]
    body.op("memref.store", [reduction.combine(low, high, body), array, at], [])
