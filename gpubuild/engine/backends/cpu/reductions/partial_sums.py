"""Lane sums: ``gpu.all_reduce`` without an array of all values: each goes to one of 64 partial results.

The loops over the work-items that compute a value also add it (or whatever ``gpu.all_reduce`` does) to the
partial result of its lane. Which values meet in a lane is the same for all chips and optimisation levels,
and no order of additions has to be given up for vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.item_chunks import CHUNK_ITEMS
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, ItemLoops, for_loop, if_op, set_operands
from gpubuild.engine.backends.cpu.fission.uniformity import nested, terminator
from gpubuild.engine.backends.cpu.reductions.combine import Reduction
from gpubuild.engine.backends.cpu.reductions.vector_sums import load_pieces, total
from gpubuild.engine.ir.builder import Compare, Emitter

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
