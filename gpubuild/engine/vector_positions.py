"""Vector positions: ``vector.extract`` and ``vector.insert`` at places that are known at run time only.

Upstream's conversion knows one such index of a vector of one dimension, and ends the process over some
of the others. Here the vector becomes one of one dimension, in which there is one index.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine.emit import Emitter

_DYNAMIC = -(1 << 63)  # in `static_position`: the next operand says
_POSITION = "static_position"


def expand_extract(op: ir.Operation) -> None:
    """An element, or a part of fewer dimensions, at indices of which some are values."""
    source, *given = list(op.operands)
    vector = ir.VectorType(source.type)
    if not given or vector.rank <= 1:
        return
    emit = Emitter(op)
    first = _first_element(emit, op, vector, given)
    flat = _flat(emit, source)
    kind = op.results[0].type
    if not isinstance(kind, ir.VectorType):
        emit.replace(_element(emit, flat, first))
        return
    part = ir.VectorType(kind)
    line = ir.VectorType.get([prod(part.shape)], part.element_type)
    value = emit.op("ub.poison", [], [line]).results[0]
    for number in range(prod(part.shape)):
        element = _element(emit, flat, _moved(emit, first, number))
        place = {_POSITION: ir.DenseI64ArrayAttr.get([number])}
        value = emit.op("vector.insert", [element, value], [line], place).results[0]
    emit.replace(emit.op("vector.shape_cast", [value], [kind]).results[0])


def expand_insert(op: ir.Operation) -> None:
    """The opposite of :func:`expand_extract`."""
    stored, target, *given = list(op.operands)
    vector = ir.VectorType(target.type)
    if not given or vector.rank <= 1:
        return
    emit = Emitter(op)
    first = _first_element(emit, op, vector, given)
    value = _flat(emit, target)
    at_run_time = {_POSITION: ir.DenseI64ArrayAttr.get([_DYNAMIC])}
    if not isinstance(stored.type, ir.VectorType):
        value = emit.op("vector.insert", [stored, value, first], [value.type], at_run_time).results[0]
    else:
        line = _flat(emit, stored)
        for number in range(prod(ir.VectorType(stored.type).shape)):
            place = {_POSITION: ir.DenseI64ArrayAttr.get([number])}
            element = emit.op("vector.extract", [line], [vector.element_type], place).results[0]
            operands = [element, value, _moved(emit, first, number)]
            value = emit.op("vector.insert", operands, [value.type], at_run_time).results[0]
    emit.replace(emit.op("vector.shape_cast", [value], [vector]).results[0])


def _first_element(emit: Emitter, op: ir.Operation, vector: ir.VectorType, given: list[ir.Value]) -> ir.Value:
    """Index, in the vector of one dimension, of the first element at the position of ``op``."""
    values = iter(given)
    first = emit.constant(0)
    for axis, static in enumerate(ir.DenseI64ArrayAttr(op.attributes[_POSITION])):
        index = next(values) if static == _DYNAMIC else emit.constant(static)
        step = emit.constant(prod(vector.shape[axis + 1 :]))
        first = emit.binary("arith.addi", first, emit.binary("arith.muli", index, step))
    return first


def _element(emit: Emitter, flat: ir.Value, index: ir.Value) -> ir.Value:
    place = {_POSITION: ir.DenseI64ArrayAttr.get([_DYNAMIC])}
    kind = ir.VectorType(flat.type).element_type
    return emit.op("vector.extract", [flat, index], [kind], place).results[0]


def _flat(emit: Emitter, value: ir.Value) -> ir.Value:
    vector = ir.VectorType(value.type)
    if vector.rank == 1:
        return value
    line = ir.VectorType.get([prod(vector.shape)], vector.element_type)
    return emit.op("vector.shape_cast", [value], [line]).results[0]


def _moved(emit: Emitter, index: ir.Value, by: int) -> ir.Value:
    return emit.binary("arith.addi", index, emit.constant(by)) if by else index
