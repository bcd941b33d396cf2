"""Queries of IR: kernels of a module, operations that access no memory, sizes of elements."""

from __future__ import annotations

from math import prod

from mlir import ir

_KERNEL_MARKS = ("gpu.kernel", "nvvm.kernel", "rocdl.kernel")
_LOWERED_DIALECTS = frozenset({"llvm", "nvvm", "rocdl"})

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


def kernel_functions(module: ir.Operation) -> list[ir.Operation]:
    """The functions of a gpu.module that can be launched, in order."""
    found = []
    for op in module.regions[0].blocks[0]:
        if op.operation.name in {"gpu.func", "llvm.func"} and any(
            mark in op.operation.attributes for mark in _KERNEL_MARKS
        ):
            found.append(op.operation)
    return found


def module_dialect(module: ir.Operation) -> str:
    """``gpu``, or ``nvvm``, ``rocdl``, ``llvm`` for a module that was lowered already."""
    dialects: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialects.add("gpu" if op.name == "gpu.func" else op.name.partition(".")[0])
        for mark in ("nvvm", "rocdl"):
            if f"{mark}.kernel" in op.attributes:
                dialects.add(mark)
        return ir.WalkResult.ADVANCE

    for op in module.regions[0].blocks[0]:
        op.operation.walk(visit)
    if not dialects or dialects - _LOWERED_DIALECTS:
        return "gpu"
    lowered = dialects - {"llvm"}
    return lowered.pop() if len(lowered) == 1 else "llvm"
