"""Lane sums: ``gpu.all_reduce`` without an array of all values: each goes to one of 64 partial results.

The loops over the work-items that compute a value also add it (or whatever ``gpu.all_reduce`` does) to the
partial result of its lane. Which values meet in a lane is the same for all chips and optimisation levels,
and no order of additions has to be given up for vectors.

Reduction: what a ``gpu.all_reduce`` does with two values.

Pieces: neighbours in memory as vectors of 32 bytes, which are added up by halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.item_loops import (
    CHUNK_ITEMS,
    Extents,
    ItemLoops,
    for_loop,
    if_op,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import scalar_bits

FLOAT = {
    "add": "arith.addf",
    "mul": "arith.mulf",
    "minnumf": "arith.minnumf",
    "maxnumf": "arith.maxnumf",
    "minimumf": "arith.minimumf",
    "maximumf": "arith.maximumf",
}
INTEGER = {
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
# What changes no value: -0.0 is still there after it met -0.0, and what ignores NaN ignores this one.
_FLOAT_IDENTITY = {
    "add": -0.0,
    "mul": 1.0,
    "minnumf": math.nan,
    "maxnumf": math.nan,
    "minimumf": math.inf,
    "maximumf": -math.inf,
}


class Reduction:
    """Of one ``gpu.all_reduce``: an operation by name, or a region of its own."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.kind: ir.Type = op.results[0].type
        self._word = (
            str(op.attributes["op"]).rpartition(" ")[2].rstrip(">") if "op" in op.attributes else None
        )

    @property
    def in_vectors(self) -> bool:
        """Whether :meth:`combine` takes vectors, too."""
        return self._word is not None and str(self.kind) in VECTOR_ELEMENTS

    def combine(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """One value of two. Raises ``CannotFissionError`` for what MLIR has no operation for."""
        if self._word is None:
            return self._inline(low, high, emit)
        floats = not isinstance(self.kind, ir.IndexType | ir.IntegerType)
        name = (FLOAT if floats else INTEGER).get(self._word)
        if name is None:
            raise CannotFissionError(f"gpu.all_reduce {self._word} of {low.type}")
        return emit.binary(name, low, high)

    def identity(self) -> ir.Attribute:
        """The value of type ``kind`` that changes no other one; only for what is :attr:`in_vectors`."""
        if isinstance(self.kind, ir.FloatType):
            return ir.FloatAttr.get(self.kind, _FLOAT_IDENTITY[self._word or ""])
        most = (1 << scalar_bits(self.kind) - 1) - 1
        whole = {"mul": 1, "minsi": most, "maxsi": -most - 1, "minui": -1, "and": -1}
        return ir.IntegerAttr.get(self.kind, whole.get(self._word or "", 0))

    def _inline(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """Copy the operation's own region, which must not use values from outside it."""
        blocks = self.op.regions[0].blocks
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


PIECE_BITS = 256
VECTOR_ELEMENTS = frozenset({"f32", "f64", "i8", "i16", "i32", "i64", "index"})
Combine = Callable[[ir.Value, ir.Value, Emitter], ir.Value]  # of two values or vectors, the lower ones first


def load_pieces(memory: ir.Value, start: int, count: int, emit: Emitter) -> list[ir.Value]:
    """Return ``count`` elements, a power of two.

    Loops over work-items store vectors of this size or larger ones. A load that takes the results of two
    stores would wait until both have reached the cache.
    """
    element = ir.MemRefType(memory.type).element_type
    size = min(count, PIECE_BITS // scalar_bits(element))
    kind = ir.VectorType.get([size], element)
    firsts = map(emit.constant, range(start, start + count, size))
    return [emit.op("vector.load", [memory, first], [kind]).results[0] for first in firsts]


def store_pieces(pieces: Sequence[ir.Value], memory: ir.Value, start: int, emit: Emitter) -> None:
    """The reverse of :func:`load_pieces`."""
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
    """One value: halves of ``pieces``, a power of two, are added until it is left."""
    while len(pieces) > 1 or _length(pieces[0]) > 1:
        pieces = halve(pieces, combine, emit)
    at = {"static_position": ir.DenseI64ArrayAttr.get([0])}
    kind = ir.VectorType(pieces[0].type).element_type
    result: ir.Value = emit.op("vector.extract", [pieces[0]], [kind], at).results[0]
    return result


def _length(vector: ir.Value) -> int:
    return int(ir.VectorType(vector.type).shape[0])


_MOST = 64  # operations whose time is not much more than that of keeping what they give
_ATOMICS = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})


def worth_repeating(ops: Sequence[ir.Operation]) -> bool:
    """Return whether the code of ``ops`` may be there twice, for work-items in another order than by number.

    They are few then, and no calls or atomics, which could tell the order.
    """
    inside = [inner.name for op in ops for inner in nested(op)]
    return len(inside) <= _MOST and not _ATOMICS.intersection(inside) and not any(map(needs_item, ops))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialSums:
    """The loops of one reduction under construction.

    ``run`` builds what a work-item does in loops that are there, and gives back its value.
    """

    reduction: Reduction
    arrays: ContextArrays
    extents: Extents
    run: Callable[[ItemLoops], ir.Value]

    def build(self, emit: Emitter) -> ir.Value:
        """Build the work of all work-items; return the reduction of their values.

        A value of one of n work-items is rounded at most n / 64 + 9 times on its way into a sum: n / 64 + 1
        for its lane, 2 for what is no chunk of 64, and 6 for the sum of all lanes.
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
        at, end = _loop(row, zero, chunks, row.constant(CHUNK_ITEMS))
        chunk = Emitter(end)
        lane, end = _loop(chunk, zero, chunk.constant(CHUNK_ITEMS), self.extents.one)
        self._add((Emitter(end).binary("arith.addi", at, lane), y, z), end, array, lane)
        return load_pieces(array, 0, CHUNK_ITEMS, emit)

    def _rest(self, lanes: list[ir.Value], chunks: ir.Value, emit: Emitter) -> list[ir.Value]:
        """Return the partial results after the last work-items of each row, too, which are less than 64.

        A row goes on at the lane where the one before ended, so that all lanes get as much; where it
        reaches the last one it takes 64 others, so that its lanes are neighbours.
        """
        array = self._array(emit, 2 * CHUNK_ITEMS)
        y, z, end = self._rows(emit)
        row = Emitter(end)
        start = ItemLoops.at(row, self.extents, (chunks, y, z), end).linear
        first = row.binary("arith.andi", start, row.constant(CHUNK_ITEMS - 1))
        rest = row.binary("arith.subi", self.extents.block_dim[0], chunks)
        column, end = _loop(row, self.extents.zero, rest, self.extents.one)
        inside = Emitter(end)
        ids = (inside.binary("arith.addi", chunks, column), y, z)
        self._add(ids, end, array, inside.binary("arith.addi", first, column))
        for begin in (0, CHUNK_ITEMS):
            more = load_pieces(array, begin, CHUNK_ITEMS, emit)
            lanes = [self.reduction.combine(*pair, emit) for pair in zip(lanes, more, strict=True)]
        return lanes

    def _rows(self, emit: Emitter) -> tuple[ir.Value, ir.Value, ir.Operation]:
        """y and z of a loop over all rows, and its end."""
        z, end = _loop(emit, self.extents.zero, self.extents.block_dim[2], self.extents.one)
        y, end = _loop(Emitter(end), self.extents.zero, self.extents.block_dim[1], self.extents.one)
        return y, z, end

    def _add(
        self, ids: tuple[ir.Value, ir.Value, ir.Value], end: ir.Operation, array: ir.Value, lane: ir.Value
    ) -> None:
        """The work of the work-item with these ids."""
        loops = ItemLoops.at(Emitter(end), self.extents, ids, end)
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


def _loop(emit: Emitter, lower: ir.Value, upper: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Operation]:
    """Create a loop; return its counter and the end of its body."""
    body = for_loop(emit, lower, upper, step).regions[0].blocks[0]
    return body.arguments[0], terminator(body)
