"""Memrefs that are other views of known memory, and those of devices that stand for memory of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlir import ir

from gpubuild.engine.ir.builder import Emitter

# On a gpu.alloc, and on copies between it and the one memref of the host that it stands for. Where kernels
# can use the host's memory, the runtime gives that.
MIRROR = "gpubuild.mirror"


def with_address(emit: Emitter, like: ir.Value, address: ir.Value) -> ir.Value:
    """Return a memref of the type and extents of ``like``, which has no offset, at ``address``, an index."""
    kind = like.type
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


class Metadata(NamedTuple):
    """The parts of a memref: its base without extents, and indices."""

    base: ir.Value
    offset: ir.Value
    sizes: list[ir.Value]
    strides: list[ir.Value]


def metadata(emit: Emitter, memory: ir.Value) -> Metadata:
    """Create a ``memref.extract_strided_metadata``."""
    kind = memory.type
    base = ir.MemRefType.get([], kind.element_type, None, kind.memory_space)
    kinds = [base, *[ir.IndexType.get()] * (1 + 2 * kind.rank)]
    base, offset, *extents = emit.op("memref.extract_strided_metadata", [memory], kinds).results
    return Metadata(base, offset, extents[: kind.rank], extents[kind.rank :])


def reinterpreted(
    emit: Emitter,
    memory: ir.Value,
    kind: ir.MemRefType,
    *,
    offset: Sequence[ir.Value] = (),
    sizes: Sequence[ir.Value],
    strides: Sequence[ir.Value],
) -> ir.Value:
    """Return ``memory`` as a memref of type ``kind``.

    Of ``offset`` (one index, or none if it is known), ``sizes`` and ``strides`` those are used that the type
    leaves open.
    """
    known_strides, known_offset = kind.get_strides_and_offset()
    open_stride, open_size = ir.ShapedType.get_dynamic_stride_or_offset(), ir.ShapedType.get_dynamic_size()
    attributes: dict[str, ir.Attribute] = {}
    operands, segments = [memory], [1]
    for name, values, numbers, unknown in (
        ("static_offsets", offset, [known_offset], open_stride),
        ("static_sizes", sizes, list(kind.shape), open_size),
        ("static_strides", strides, known_strides, open_stride),
    ):
        given = [value for value, number in zip(values, numbers, strict=False) if number == unknown]
        attributes[name] = ir.DenseI64ArrayAttr.get(numbers)
        segments.append(len(given))
        operands += given
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(segments)
    return emit.value("memref.reinterpret_cast", operands, kind, attributes)
