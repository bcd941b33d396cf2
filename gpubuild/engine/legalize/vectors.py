"""Vector positions: ``vector.extract`` and ``vector.insert`` at places that are known at run time only.

Upstream's conversion knows one such index of a vector of one dimension, and ends the process over some
of the others. Here each row is taken or not: a vector need not be in memory then.

Vector memory: ``vector.load`` and ``vector.store`` of several dimensions, row by row.

Upstream's conversion to LLVM knows rows only and leaves the rest as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.legalize.arith_expansions import compare


def _split_store(op: ir.Operation, _: Lowering) -> None:
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


def _split_load(op: ir.Operation, _: Lowering) -> None:
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


_EQ = 0  # arith.cmpi predicate
_DYNAMIC = -(1 << 63)  # in `static_position`: the next operand says
_POSITION = "static_position"
Position = Sequence[int | ir.Value]


def _expand_extract(op: ir.Operation, _: Lowering) -> None:
    """An element, or a part of fewer dimensions, at indices of which some are values."""
    source, *given = list(op.operands)
    if given and ir.VectorType(source.type).rank > 1:
        emit = Emitter(op)
        emit.replace(_taken(emit, source, _position(op, given)))


def _expand_insert(op: ir.Operation, _: Lowering) -> None:
    """The opposite of :func:`_expand_extract`."""
    stored, target, *given = list(op.operands)
    if given and ir.VectorType(target.type).rank > 1:
        emit = Emitter(op)
        emit.replace(_put(emit, stored, target, _position(op, given)))


def _position(op: ir.Operation, given: list[ir.Value]) -> Position:
    values = iter(given)
    static = ir.DenseI64ArrayAttr(op.attributes[_POSITION])
    return [next(values) if index == _DYNAMIC else index for index in static]


def _taken(emit: Emitter, vector: ir.Value, position: Position) -> ir.Value:
    if not position:
        return vector
    index, *rest = position
    if isinstance(index, int):
        return _taken(emit, _row(emit, vector, index), rest)
    value = _taken(emit, _row(emit, vector, 0), rest)
    for number in range(1, ir.VectorType(vector.type).shape[0]):
        other = _taken(emit, _row(emit, vector, number), rest)
        value = _choose(emit, index, number, other, value)
    return value


def _put(emit: Emitter, stored: ir.Value, vector: ir.Value, position: Position) -> ir.Value:
    if not position:
        return stored
    index, *rest = position
    if isinstance(index, int):
        return _with_row(emit, _put(emit, stored, _row(emit, vector, index), rest), vector, index)
    result = vector
    for number in range(ir.VectorType(vector.type).shape[0]):
        old = _row(emit, vector, number)
        new = _choose(emit, index, number, _put(emit, stored, old, rest), old)
        result = _with_row(emit, new, result, number)
    return result


def _row(emit: Emitter, vector: ir.Value, number: int) -> ir.Value:
    whole = ir.VectorType(vector.type)
    kind = ir.VectorType.get(whole.shape[1:], whole.element_type) if whole.rank > 1 else whole.element_type
    return emit.op("vector.extract", [vector], [kind], _at(number)).results[0]


def _with_row(emit: Emitter, row: ir.Value, vector: ir.Value, number: int) -> ir.Value:
    return emit.op("vector.insert", [row, vector], [vector.type], _at(number)).results[0]


def _at(number: int) -> dict[str, ir.Attribute]:
    return {_POSITION: ir.DenseI64ArrayAttr.get([number])}


def _choose(emit: Emitter, index: ir.Value, number: int, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """``then`` where ``index`` is ``number``. LLVM selects vectors of one dimension only."""
    condition = compare(emit, _EQ, index, emit.constant(number))
    kind = then.type
    flat = kind
    if isinstance(kind, ir.VectorType) and ir.VectorType(kind).rank > 1:
        shaped = ir.VectorType(kind)
        flat = ir.VectorType.get([prod(shaped.shape)], shaped.element_type)
    operands = [condition, _shaped(emit, then, flat), _shaped(emit, otherwise, flat)]
    return _shaped(emit, emit.op("arith.select", operands, [flat]).results[0], kind)


def _shaped(emit: Emitter, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else emit.op("vector.shape_cast", [value], [kind]).results[0]


SPLIT_ACCESSES = rewriting(
    "split-vector-accesses", {"vector.load": _split_load, "vector.store": _split_store}
)
EXPAND_POSITIONS = rewriting(
    "expand-vector-positions", {"vector.extract": _expand_extract, "vector.insert": _expand_insert}
)
