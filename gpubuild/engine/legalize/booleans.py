"""Bool memory: memrefs of i1, whose elements are bytes.

Upstream's conversion ends the process over a load of one, and makes a vector of them one of bits, which
in memory they are not. So all accesses are to bytes; the memory itself stays as it is, seen through a
cast that is gone once both types are lowered.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.arith_expansions import like

# Where in an access the memory is, and the value that is stored, or stands for what is not loaded.
_LOADS = {
    "affine.load": (0, None),
    "affine.vector_load": (0, None),
    "memref.load": (0, None),
    "vector.expandload": (0, -1),
    "vector.gather": (0, -1),
    "vector.load": (0, None),
    "vector.maskedload": (0, -1),
}
_STORES = {
    "affine.store": (1, 0),
    "affine.vector_store": (1, 0),
    "memref.store": (1, 0),
    "vector.compressstore": (0, -1),
    "vector.maskedstore": (0, -1),
    "vector.scatter": (0, -1),
    "vector.store": (1, 0),
    "vector.transfer_write": (1, 0),
}
_TRANSFER = "vector.transfer_read"  # the padding stands in front of the mask, if there is one
ACCESSES = frozenset({*_LOADS, *_STORES, _TRANSFER})
_LOOPS = "convert-linalg-to-loops"


def access_bytes(op: ir.Operation) -> ir.Operation:
    """Make ``op``, one of :data:`ACCESSES`, an access to bytes if its memory is of i1; the access."""
    memory_at, value_at = _places(op)
    memory = op.operands[memory_at]
    if not isinstance(memory.type, ir.MemRefType) or not _is_bool(ir.MemRefType(memory.type).element_type):
        return op
    emit = Emitter(op)
    byte = ir.IntegerType.get_signless(8)
    operands = list(op.operands)
    operands[memory_at] = bytes_of(emit, memory)
    if value_at is not None:
        value = operands[value_at]
        operands[value_at] = emit.op("arith.extui", [value], [like(value.type, byte)]).results[0]
    kinds = [like(result.type, byte) for result in op.results]
    access = emit.op(op.name, operands, kinds, {name: op.attributes[name] for name in op.attributes})
    if kinds:
        emit.replace(emit.op("arith.trunci", [access.results[0]], [op.results[0].type]).results[0])
    else:
        op.erase()
    return access


def bytes_of(emit: Emitter, memory: ir.Value) -> ir.Value:
    """``memory``, as one of bytes if it is of i1."""
    shaped = ir.MemRefType(memory.type)
    if not _is_bool(shaped.element_type):
        return memory
    byte = ir.IntegerType.get_signless(8)
    return emit.cast(memory, ir.MemRefType.get(shaped.shape, byte, shaped.layout, shaped.memory_space))


def lower_structured(module: ir.Module, parts: str) -> None:
    """Make loops of the operations of linalg if some access i1, for :func:`access_bytes` to find them.

    ``parts`` are what of ``module`` to look into: ``gpu.module`` or ``func.func``.
    """
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        if op.name.startswith("linalg."):
            kinds = [o.type for o in op.operands if isinstance(o.type, ir.MemRefType)]
            found = found or any(_is_bool(ir.MemRefType(kind).element_type) for kind in kinds)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    if found:
        contexts.run_passes(module, f"builtin.module({parts}({_LOOPS}))")


def _places(op: ir.Operation) -> tuple[int, int | None]:
    if op.name == _TRANSFER:
        return 0, 1 + ir.MemRefType(op.operands[0].type).rank if _reads_memory(op) else None
    return {**_LOADS, **_STORES}[op.name]


def _reads_memory(op: ir.Operation) -> bool:
    return isinstance(op.operands[0].type, ir.MemRefType)


def _is_bool(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IntegerType) and ir.IntegerType(kind).width == 1
