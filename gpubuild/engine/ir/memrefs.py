"""Memrefs of host code: those of other addresses, and those that stand for memory of the host."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter

# On a gpu.alloc, and on copies between it and the one memref of the host that it stands for. Where kernels
# can use the host's memory, the runtime gives that.
MIRROR = "gpubuild.mirror"


def with_address(emit: Emitter, like: ir.Value, address: ir.Value) -> ir.Value:
    """Return a memref of the type and extents of ``like``, which has no offset, at ``address``, an index."""
    kind = ir.MemRefType(like.type)
    pointer, word = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(64)
    array = f"array<{kind.rank} x i64>"
    fields = f", {array}, {array}" if kind.rank else ""
    descriptor = ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64{fields})>")
    start = emit.value("llvm.inttoptr", [emit.value("arith.index_cast", [address], word)], pointer)
    value = emit.cast(like, descriptor)
    for field in (0, 1):
        position = {"position": ir.DenseI64ArrayAttr.get([field])}
        value = emit.value("llvm.insertvalue", [value, start], descriptor, position)
    return emit.cast(value, kind)
