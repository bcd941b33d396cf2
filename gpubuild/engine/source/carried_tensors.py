"""Keep each tensor that a loop carries in one buffer: what the loop yields is put back to where it was.

Otherwise each iteration has a buffer of its own, and all launches in the loop need copies.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op, operations, terminator
from gpubuild.engine.source.memory_uses import CHOICES, arms

_IN_DESTINATION = "bufferization.materialize_in_destination"
_INTO = ("tensor.insert", "tensor.insert_slice", _IN_DESTINATION)  # the result is operand 1, changed
_VIEWS = ("tensor.cast", "tensor.extract_slice", "tensor.collapse_shape", "tensor.expand_shape")


def keep_carried(module: ir.Operation) -> None:
    """Put back what the loops in ``module`` yield, except where the shape may change."""
    for loop in operations(module, ("scf.for",)):
        block = loop.regions[0].blocks[0]
        end = terminator(block)
        changed = {
            number: carried
            for number, carried in enumerate(list(block.arguments)[1:])
            if isinstance(carried.type, ir.RankedTensorType) and _begun(end.operands[number]) != carried
        }
        kept = {
            number: carried
            for number, carried in changed.items()
            if _keeps_shape(end.operands[number], carried, loop.operands[3 + number])
        }
        for number in changed if kept else ():
            # Loops may swap tensors, so these are read before one is written.
            value = end.operands[number]
            others = list(block.arguments)
            own = others.pop(1 + number)
            if value in list(end.operands)[:number]:
                end.operands[number] = copied(end, value)
            else:
                _copy_where_shared(end, number, own, others)
        for number, carried in kept.items():
            _allocate_in_branches(end.operands[number])
            operands = [end.operands[number], carried]
            end.operands[number] = Emitter(end).value(_IN_DESTINATION, operands, carried.type)


def _allocate_in_branches(value: ir.Value) -> None:
    """Allocate what the branches that ``value`` comes from compute into.

    Upstream's pass would have a branch write to where the loop puts it, and then refuse that.
    """
    op = defining_op(value)
    if op is None or op.name not in CHOICES:
        return
    for empty in operations(op, ("tensor.empty",)):
        sizes = list(empty.operands)
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(sizes), 0, 0])}
        emit = Emitter(empty)
        emit.replace(emit.value("bufferization.alloc_tensor", sizes, empty.results[0].type, segments))


def _begun(value: ir.Value) -> ir.Value:
    """Return the tensor in whose buffer inner loops have made ``value``."""
    op = defining_op(value)
    while op is not None and op.name == "scf.for":
        initial = _of_equal_shape(op, ir.OpResult(value).result_number)
        if not initial:
            break
        value = initial[0]
        op = defining_op(value)
    return value


def copied(before: ir.Operation, tensor: ir.Value) -> ir.Value:
    """Return a copy of ``tensor`` in a buffer of its own."""
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1, 0])}
    return Emitter(before).value("bufferization.alloc_tensor", [tensor], tensor.type, segments)


def _copy_where_shared(user: ir.Operation, number: int, own: ir.Value, others: list[ir.Value]) -> None:
    """Copy an operand that may be a part of ``own``, or be in the buffer of one of ``others``.

    Of a choice, the arms are copied that are so: upstream refuses to copy what was chosen.
    """
    value = user.operands[number]
    op = defining_op(value)
    if op is not None and op.name in CHOICES:
        for end, arm in arms(op, ir.OpResult(value).result_number):
            _copy_where_shared(end, arm, own, others)
    elif _may_be_part(value, [own]) or _may_be_in_place(value, others):
        user.operands[number] = copied(user, value)


def _may_be_part(value: ir.Value, whole: list[ir.Value]) -> bool:
    """Return whether ``value`` may be one of ``whole``, or a part of it, that no operation has changed."""
    op = defining_op(value)
    if op is not None and op.name in _VIEWS:
        return _may_be_part(op.operands[0], whole)
    if op is not None and op.name in CHOICES:
        return any(_may_be_part(arm, whole) for arm in _of_equal_shape(op, ir.OpResult(value).result_number))
    return value in whole


def _may_be_in_place(value: ir.Value, others: list[ir.Value]) -> bool:
    """Return whether ``value`` may be in the buffer of one of ``others``, changed or not."""
    op = defining_op(value)
    if op is None:
        return value in others
    if op.name == "scf.while":  # upstream refuses to overwrite what it began with
        return True
    before = op.operands[:1] if op.name in _VIEWS else _of_equal_shape(op, ir.OpResult(value).result_number)
    return any(_may_be_in_place(one, others) for one in before)


def _keeps_shape(yielded: ir.Value, carried: ir.Value, initial: ir.Value) -> bool:
    kind = carried.type
    return all(
        _extent(yielded, number) in ((carried, number), _extent(initial, number))
        for number in range(kind.rank)
        if kind.is_dynamic_dim(number)
    )


def _extent(value: ir.Value, dimension: int) -> tuple[ir.Value, int]:
    """Return the tensor, and its dimension, that has this extent, or the size that ``tensor.empty`` takes."""
    op = defining_op(value)
    if op is None:
        return value, dimension
    if op.name == "tensor.empty":
        kind = value.type
        if not kind.is_dynamic_dim(dimension):
            return value, dimension
        size = op.operands[sum(kind.is_dynamic_dim(number) for number in range(dimension))]
        origin = defining_op(size)
        number = constant_integer(origin.operands[1]) if origin and origin.name == "tensor.dim" else None
        return (size, 0) if origin is None or number is None else _extent(origin.operands[0], number)
    found = {_extent(same, dimension) for same in _of_equal_shape(op, ir.OpResult(value).result_number)}
    return found.pop() if len(found) == 1 else (value, dimension)


def _of_equal_shape(op: ir.Operation, result: int) -> list[ir.Value]:
    """Return values of which one has the shape of a result, as far as that is known."""
    if op.name.startswith("linalg."):
        return [op.operands[len(op.operands) - len(op.results) + result]]
    if op.name in _INTO:
        return [op.operands[1]]
    if op.name in CHOICES:
        return [end.operands[number] for end, number in arms(op, result)]
    if op.name == "scf.for":
        carried = op.regions[0].blocks[0].arguments[1 + result]
        yielded = terminator(op.regions[0].blocks[0]).operands[result]
        into = defining_op(yielded)
        is_kept = _begun(yielded) == carried or (into is not None and into.name == _IN_DESTINATION)
        return [op.operands[3 + result]] if is_kept else []
    return []
