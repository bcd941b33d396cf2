"""Memory of i1, whose elements are bytes.

Upstream's conversion ends the process over a load of one element, and loads a vector of them as bits, which
they are not in memory. So all accesses become accesses to bytes. The memory keeps its type; a cast, which
disappears when both types are lowered, shows it as bytes.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import first, shaped_like

# The operand that is the memory, and the one that is stored, or that replaces masked elements of a load.
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
_TRANSFER = "vector.transfer_read"  # the padding precedes the mask, if there is one
_LOOPS = "convert-linalg-to-loops"


def _access_bytes(op: ir.Operation, _: Lowering) -> None:
    """Make a load or store access bytes if its memory is of i1."""
    memory_at, value_at = _memory_and_value(op)
    memory = op.operands[memory_at]
    if not isinstance(memory.type, ir.MemRefType) or not _is_bool(memory.type.element_type):
        return
    emit = Emitter(op)
    byte = ir.IntegerType.get_signless(8)
    operands = list(op.operands)
    operands[memory_at] = bytes_of(emit, memory)
    if value_at is not None:
        value = operands[value_at]
        operands[value_at] = emit.value("arith.extui", [value], shaped_like(value.type, byte))
    kinds = [shaped_like(result.type, byte) for result in op.results]
    access = emit.op(op.name, operands, kinds, {name: op.attributes[name] for name in op.attributes})
    if kinds:
        emit.replace(emit.value("arith.trunci", [access.results[0]], op.results[0].type))
    else:
        op.erase()


def bytes_of(emit: Emitter, memory: ir.Value) -> ir.Value:
    """Return ``memory``, as memory of bytes if it is of i1."""
    shaped = memory.type
    if not _is_bool(shaped.element_type):
        return memory
    byte = ir.IntegerType.get_signless(8)
    return emit.cast(memory, ir.MemRefType.get(shaped.shape, byte, shaped.layout, shaped.memory_space))


def lower_structured(parts: str) -> Pass[Lowering]:
    """Return the pass that lowers linalg's operations on i1 to loops, whose accesses are visible.

    ``parts`` are the operations in the module to look into: ``gpu.module`` or ``func.func``.
    """

    def run(module: ir.Module, lowering: Lowering) -> None:
        text = lowering.source.text
        if (not text or "linalg." in text) and first(module.operation, _is_structured) is not None:
            contexts.run_passes(module, f"builtin.module({parts}({_LOOPS}))", source=lowering.source)

    return Pass(name="linalg-on-bools-to-loops", run=run)


def _is_structured(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and any(
        _is_bool(o.type.element_type) for o in op.operands if isinstance(o.type, ir.MemRefType)
    )


def _memory_and_value(op: ir.Operation) -> tuple[int, int | None]:
    if op.name == _TRANSFER:
        return 0, 1 + op.operands[0].type.rank if _reads_memory(op) else None
    return {**_LOADS, **_STORES}[op.name]


def _reads_memory(op: ir.Operation) -> bool:
    return isinstance(op.operands[0].type, ir.MemRefType)


def _is_bool(kind: ir.Type) -> bool:
    return isinstance(kind, ir.IntegerType) and ir.IntegerType(kind).width == 1


USE_BYTES = rewriting("bool-memory-to-bytes", dict.fromkeys((*_LOADS, *_STORES, _TRANSFER), _access_bytes))
