"""Element size: bytes from one element of a memref to the next, as LLVM lays them out.

Views: operations on memrefs and vectors that access no memory themselves.
"""

from __future__ import annotations

from math import prod

from mlir import ir

# Their result is the memory of their first operand, or a part of it.
VIEWS = frozenset(
    {
        "memref.cast",
        "memref.subview",
        "memref.view",
        "memref.reinterpret_cast",
        "memref.memory_space_cast",
        "memref.expand_shape",
        "memref.collapse_shape",
        "memref.transpose",
        "builtin.unrealized_conversion_cast",  # memory of i1, seen as bytes: engine.legalize.booleans
    }
)
NO_ACCESS = VIEWS | {
    "memref.dim",
    "memref.get_global",
    "memref.extract_aligned_pointer_as_index",
    "memref.extract_strided_metadata",
    "vector.broadcast",
    "vector.extract",
    "vector.insert",
    "vector.fma",
    "vector.shuffle",
    "vector.reduction",
}


def element_bytes(kind: ir.Type) -> int | None:
    """Bytes of a number, index or vector of them with its padding; ``None`` for all else."""
    if isinstance(kind, ir.VectorType):
        # LLVM has arrays of vectors of one dimension, each of which it pads to a power of two.
        *outer, last = ir.VectorType(kind).shape or [1]
        one = element_bytes(ir.VectorType(kind).element_type)
        return None if one is None else prod(outer) << (last * one - 1).bit_length()
    if isinstance(kind, ir.IndexType):
        return 8
    if isinstance(kind, ir.IntegerType | ir.FloatType):
        return 1 << ((int(kind.width) + 7) // 8 - 1).bit_length()
    return None
