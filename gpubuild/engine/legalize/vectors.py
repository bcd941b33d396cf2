"""Vector operations that upstream's conversion to LLVM does not have.

``vector.extract`` and ``vector.insert`` at positions known at run time: upstream lowers one such index of a
vector of one dimension, and ends the process over some others. Here a select takes each row or not, so
that the vector need not be in memory. ``vector.load`` and ``vector.store`` of several dimensions become
those of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting


def _split_store(op: ir.Operation, _: Lowering) -> None:
    """Split ``vector.store`` of more than one dimension into stores of rows."""
    value, memory, *indices = list(op.operands)
    vector = value.type
    if vector.rank <= 1 or _holds_vectors(memory):
        return
    emit = Emitter(op)
    for position in product(*(range(n) for n in vector.shape[:-1])):
        part = emit.extract(value, position)
        emit.op("vector.store", [part, memory, *_moved(emit, indices, position)], [], _kept(op))
    op.erase()


def _split_load(op: ir.Operation, _: Lowering) -> None:
    """Split ``vector.load`` of more than one dimension into loads of rows."""
    memory, *indices = list(op.operands)
    vector = op.results[0].type
    if vector.rank <= 1 or _holds_vectors(memory):
        return
    emit = Emitter(op)
    row = ir.VectorType.get(vector.shape[-1:], vector.element_type)
    value = emit.value("ub.poison", [], vector)
    for position in product(*(range(n) for n in vector.shape[:-1])):
        part = emit.op("vector.load", [memory, *_moved(emit, indices, position)], [row], _kept(op))
        value = emit.insert(part.results[0], value, position)
    emit.replace(value)


def _holds_vectors(memory: ir.Value) -> bool:
    """Return whether an element is a vector, which has one address."""
    return isinstance(memory.type.element_type, ir.VectorType)


def _moved(emit: Emitter, indices: list[ir.Value], position: tuple[int, ...]) -> list[ir.Value]:
    """Return ``indices`` of one row of the vector, whose dimensions are the last ones of the memory."""
    first = len(indices) - len(position) - 1
    moved = list(indices)
    for number, offset in enumerate(position):
        if offset:
            at = first + number
            moved[at] = emit.binary("arith.addi", indices[at], emit.constant(offset))
    return moved


def _kept(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the attributes that hold for every row: the alignment is that of the first one."""
    return {name: op.attributes[name] for name in ("nontemporal",) if name in op.attributes}


_DYNAMIC = -(1 << 63)  # in `static_position`: the next operand is the index
Position = Sequence[int | ir.Value]


def _expand_extract(op: ir.Operation, _: Lowering) -> None:
    """Expand ``vector.extract`` at indices of which some are values."""
    source, *given = list(op.operands)
    if given and source.type.rank > 1:
        emit = Emitter(op)
        emit.replace(_extracted(emit, source, _position(op, given)))


def _expand_insert(op: ir.Operation, _: Lowering) -> None:
    """Expand ``vector.insert`` at indices of which some are values."""
    stored, target, *given = list(op.operands)
    if given and target.type.rank > 1:
        emit = Emitter(op)
        emit.replace(_inserted(emit, stored, target, _position(op, given)))


def _position(op: ir.Operation, given: list[ir.Value]) -> Position:
    values = iter(given)
    static = op.attributes["static_position"]
    return [next(values) if index == _DYNAMIC else index for index in static]


def _extracted(emit: Emitter, vector: ir.Value, position: Position) -> ir.Value:
    if not position:
        return vector
    index, *rest = position
    if isinstance(index, int):
        return _extracted(emit, emit.extract(vector, [index]), rest)
    value = _extracted(emit, emit.extract(vector, [0]), rest)
    for number in range(1, vector.type.shape[0]):
        other = _extracted(emit, emit.extract(vector, [number]), rest)
        value = choose(emit, index, number, other, value)
    return value


def _inserted(emit: Emitter, stored: ir.Value, vector: ir.Value, position: Position) -> ir.Value:
    if not position:
        return stored
    index, *rest = position
    if isinstance(index, int):
        return emit.insert(_inserted(emit, stored, emit.extract(vector, [index]), rest), vector, [index])
    result = vector
    for number in range(vector.type.shape[0]):
        old = emit.extract(vector, [number])
        new = choose(emit, index, number, _inserted(emit, stored, old, rest), old)
        result = emit.insert(new, result, [number])
    return result


def choose(emit: Emitter, index: ir.Value, number: int, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """Select ``then`` where ``index`` is ``number``. LLVM selects vectors of one dimension only."""
    condition = emit.compare(Compare.EQ, index, emit.constant(number))
    kind = flat = then.type
    if isinstance(kind, ir.VectorType) and kind.rank > 1:
        flat = ir.VectorType.get([prod(kind.shape)], kind.element_type)
    then, otherwise = _shaped(emit, then, flat), _shaped(emit, otherwise, flat)
    return _shaped(emit, emit.select(condition, then, otherwise), kind)


def _shaped(emit: Emitter, value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else emit.value("vector.shape_cast", [value], kind)


SPLIT_ACCESSES = rewriting(
    "split-vector-accesses", {"vector.load": _split_load, "vector.store": _split_store}
)
EXPAND_POSITIONS = rewriting(
    "expand-vector-positions", {"vector.extract": _expand_extract, "vector.insert": _expand_insert}
)
