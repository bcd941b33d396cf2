"""Vector memory: ``vector.load`` and ``vector.store`` of several dimensions, row by row.

Upstream's conversion to LLVM knows rows only and leaves the rest as it is.
"""

from __future__ import annotations

from itertools import product

from mlir import ir

from gpubuild.engine.emit import Emitter


def split_store(op: ir.Operation) -> None:
    """``vector.store`` of more than one dimension as stores of its rows."""
    value, memory, *indices = list(op.operands)
    vector = ir.VectorType(value.type)
    if vector.rank <= 1 or _holds_vectors(memory):
        return
    emit = Emitter(op)
    row = ir.VectorType.get(vector.shape[-1:], vector.element_type)
    for position in product(*(range(n) for n in vector.shape[:-1])):
        part = emit.op("vector.extract", [value], [row], _static(position)).results[0]
        emit.op("vector.store", [part, memory, *_moved(emit, indices, position)], [], _kept(op))
    op.erase()


def split_load(op: ir.Operation) -> None:
    """``vector.load`` of more than one dimension as loads of its rows."""
    memory, *indices = list(op.operands)
    vector = ir.VectorType(op.results[0].type)
    if vector.rank <= 1 or _holds_vectors(memory):
        return
    emit = Emitter(op)
    row = ir.VectorType.get(vector.shape[-1:], vector.element_type)
    value = emit.op("ub.poison", [], [vector]).results[0]
    for position in product(*(range(n) for n in vector.shape[:-1])):
        part = emit.op("vector.load", [memory, *_moved(emit, indices, position)], [row], _kept(op))
        value = emit.op("vector.insert", [part.results[0], value], [vector], _static(position)).results[0]
    emit.replace(value)


def _holds_vectors(memory: ir.Value) -> bool:
    """Whether one element is a vector: then one address is all there is."""
    return isinstance(ir.MemRefType(memory.type).element_type, ir.VectorType)


def _moved(emit: Emitter, indices: list[ir.Value], position: tuple[int, ...]) -> list[ir.Value]:
    """``indices``, whose dimensions before the last few lie outside the vector, at one row of it."""
    first = len(indices) - len(position) - 1
    moved = list(indices)
    for number, offset in enumerate(position):
        if offset:
            at = first + number
            moved[at] = emit.binary("arith.addi", indices[at], emit.constant(offset))
    return moved


def _static(position: tuple[int, ...]) -> dict[str, ir.Attribute]:
    return {"static_position": ir.DenseI64ArrayAttr.get(list(position))}


def _kept(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Whether the access is nontemporal. What is known of alignment holds for the first row alone."""
    return {name: op.attributes[name] for name in ("nontemporal",) if name in op.attributes}
