"""Views: operations on memrefs and vectors that access no memory themselves."""

from __future__ import annotations

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
        "builtin.unrealized_conversion_cast",  # memory of i1, seen as bytes: engine.bool_memory
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
