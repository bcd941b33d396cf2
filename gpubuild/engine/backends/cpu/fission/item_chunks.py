"""Chunks: the work-items of a workgroup in pieces of known shape, whose loops LLVM turns into vectors.

A piece is 64 work-items in x, or 4 rows of 16; what is left over goes in rows of less than 64. Extents
of workgroups are known when a kernel runs only; those of pieces are known when it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_loops import Extents, ItemLoops, for_loop
from gpubuild.engine.backends.cpu.fission.uniformity import terminator
from gpubuild.engine.ir.builder import Compare, Emitter

CHUNK_ITEMS = 64  # work-items of a chunk, at most
_WIDTH, _ROWS = 16, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """``rows`` of ``width`` work-items from ``origin`` on; ``end`` is where the code for them goes."""

    extents: Extents
    origin: tuple[ir.Value, ir.Value, ir.Value]
    width: ir.Value
    rows: int
    end: ir.Operation

    def open(self, emit: Emitter) -> tuple[ItemLoops, ir.Value, ir.Value]:
        """Open loops over the chunk; return them, the work-item's number in it, and that in its row."""
        zero, one = self.extents.zero, self.extents.one
        row = zero
        if self.rows > 1:
            row, end = _loop(emit, zero, emit.constant(self.rows), one)
            emit = Emitter(end)
        column, end = _loop(emit, zero, self.width, one)
        emit = Emitter(end)
        x, y, z = self.origin
        ids = (emit.binary("arith.addi", x, column), emit.binary("arith.addi", y, row), z)
        lane = emit.binary("arith.addi", emit.binary("arith.muli", row, self.width), column)
        rows = emit.binary(
            "arith.addi",
            emit.binary("arith.muli", ids[2], self.extents.plane),
            emit.binary("arith.muli", ids[1], self.extents.block_dim[0]),
        )
        linear = emit.binary("arith.addi", rows, ids[0])
        return ItemLoops(extents=self.extents, ids=ids, linear=linear, end=end), lane, column


def open_chunks(emit: Emitter, extents: Extents) -> Iterator[Chunk]:
    """Open loops over all chunks of a workgroup, for each shape; the code of one goes to its ``end``."""
    zero, one = extents.zero, extents.one
    x, y, depth = extents.block_dim
    z, end = _loop(emit, zero, depth, one)
    plane = Emitter(end)
    wide = _multiple(plane, x, CHUNK_ITEMS)
    narrow = _multiple(plane, x, _WIDTH)
    rows = _multiple(plane, y, _ROWS)

    at_y, end = _loop(plane, zero, y, one)
    row = Emitter(end)
    width = row.constant(CHUNK_ITEMS)
    at_x, end = _loop(row, zero, wide, width)
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=1, end=end)

    at_y, end = _loop(plane, zero, rows, plane.constant(_ROWS))
    row = Emitter(end)
    width = row.constant(_WIDTH)
    at_x, end = _loop(row, wide, narrow, width)
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=_ROWS, end=end)

    at_y, end = _loop(plane, zero, y, one)
    row = Emitter(end)
    start = row.select(row.compare(Compare.SLT, at_y, rows), narrow, wide)
    width = row.binary("arith.subi", x, start)
    at_x, end = _loop(row, start, x, row.binary("arith.maxsi", width, one))  # once, or not at all
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=1, end=end)


def _multiple(emit: Emitter, value: ir.Value, of: int) -> ir.Value:
    """Return the largest multiple of a power of two that is not above ``value``."""
    return emit.binary("arith.andi", value, emit.constant(-of))


def _loop(emit: Emitter, lower: ir.Value, upper: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Operation]:
    """Create a loop; return its counter and the end of its body."""
    body = for_loop(emit, lower, upper, step).regions[0].blocks[0]
    return body.arguments[0], terminator(body)
