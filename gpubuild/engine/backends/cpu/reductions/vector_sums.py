"""Pieces: neighbours in memory as vectors of 32 bytes, which are added up by halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import scalar_bits

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
