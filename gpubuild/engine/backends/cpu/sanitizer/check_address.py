"""Check address: where an access begins, and how large elements are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir

from gpubuild.engine.ir.builder import Emitter

if TYPE_CHECKING:
    from gpubuild.engine.backends.cpu.sanitizer.check_access import Access

_INDEX_BYTES = 8


def element_bytes(kind: ir.Type) -> int | None:
    """Bytes from one element to the next; ``None`` for kinds of elements that are not checked."""
    if isinstance(kind, ir.IndexType):
        return _INDEX_BYTES
    if isinstance(kind, ir.IntegerType):
        return _power_of_two((ir.IntegerType(kind).width + 7) // 8)
    if isinstance(kind, ir.FloatType):
        return _power_of_two((ir.FloatType(kind).width + 7) // 8)
    if isinstance(kind, ir.ComplexType):
        part = element_bytes(ir.ComplexType(kind).element_type)
        return None if part is None else 2 * part
    if isinstance(kind, ir.VectorType):
        vector = ir.VectorType(kind)
        part = element_bytes(vector.element_type)
        if part is None or vector.rank > 1:
            return None
        return _power_of_two(part * (vector.shape[0] if vector.rank else 1))
    return None


def first_address(emit: Emitter, access: Access, bytes_each: int) -> ir.Value:
    """The address of the first element, as an index."""
    memory, kind = access.memory, ir.MemRefType(access.memory.type)
    index = ir.IndexType.get()
    start = emit.op("memref.extract_aligned_pointer_as_index", [memory], [index]).results[0]
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    parts = emit.op(
        "memref.extract_strided_metadata", [memory], [base, index, *[index] * (2 * kind.rank)]
    ).results
    position = parts[1]
    for number, value in enumerate(access.indices):
        step = emit.binary("arith.muli", value, parts[2 + kind.rank + number])
        position = emit.binary("arith.addi", position, step)
    scaled = emit.binary("arith.muli", position, emit.constant(bytes_each))
    return emit.binary("arith.addi", start, scaled)


def whole_memory(emit: Emitter, memory: ir.Value, bytes_each: int) -> tuple[ir.Value, ir.Value]:
    """Address and bytes of all from a memref's first element to its last."""
    kind, index = ir.MemRefType(memory.type), ir.IndexType.get()
    start = emit.op("memref.extract_aligned_pointer_as_index", [memory], [index]).results[0]
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    parts = emit.op(
        "memref.extract_strided_metadata", [memory], [base, index, *[index] * (2 * kind.rank)]
    ).results
    one = emit.constant(1)
    elements = one
    for number in range(kind.rank):
        steps = emit.binary("arith.subi", parts[2 + number], one)
        reach = emit.binary("arith.muli", steps, parts[2 + kind.rank + number])
        elements = emit.binary("arith.addi", elements, reach)
    bytes_ = emit.constant(bytes_each)
    offset = emit.binary("arith.muli", parts[1], bytes_)
    return emit.binary("arith.addi", start, offset), emit.binary("arith.muli", elements, bytes_)


def _power_of_two(bytes_: int) -> int:
    return 1 << (bytes_ - 1).bit_length()
