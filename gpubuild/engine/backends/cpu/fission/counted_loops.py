"""Make ``scf.for`` of each ``scf.while`` that counts up to a bound.

Branches that are lifted become ``scf.while``, and so do loops of some front ends. Fission runs the iterations
of an ``scf.for`` for many work-items together. Upstream has ``upliftWhileToForLoop``, but no pass for it.
"""

from __future__ import annotations

from collections.abc import Set

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import (
    POSITIONS,
    body_operations,
    named,
    operations,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import INDEX_BITS, constant_integer, defining_op, is_outside, scalar_bits

_SIZES = frozenset({"gpu.block_dim", "gpu.grid_dim"})


def count_loops(function: ir.Operation) -> None:
    """Replace each ``scf.while`` in ``function`` that compares a counter first and makes equal steps."""
    for op in named(function, {"scf.while"}):
        number = _counter(op)
        if number is not None:
            _replace(op, number)


def can_be_found(loop: ir.Operation) -> bool:
    """Return whether an ``scf.for`` becomes one again after it was made of branches."""
    step = loop.operands[2]
    is_safe = constant_integer(step) == 1 or scalar_bits(step.type) == INDEX_BITS
    return "unsignedCmp" not in loop.attributes and is_safe and _is_positive(step)


def _counter(op: ir.Operation) -> int | None:
    """Return which argument of the loop is a counter below a bound that the loop does not change."""
    before, after = (region.blocks[0] for region in op.regions)
    if [inner.name for inner in operations(before)] != ["arith.cmpi", "scf.condition"]:
        return None
    compare, condition = operations(before)
    more, *passed = list(condition.operands)
    arguments = list(before.arguments)
    counter, bound = _below(compare)
    if counter is None or counter not in arguments:
        return None
    if more != compare.results[0] or not is_outside(bound, op):
        return None
    if any(value not in arguments and not is_outside(value, op) for value in passed):
        return None
    for value, result in zip(passed, op.results, strict=True):
        if value == counter and any(True for _ in result.uses):
            return None  # it would have to be computed
    number = arguments.index(counter)
    inside = {argument for argument, value in zip(after.arguments, passed, strict=True) if value == counter}
    step = _step(terminator(after).operands[number], inside)
    is_known = step is not None and is_outside(step, op) and _starts_below(op.operands[number], compare)
    return number if is_known else None


def _below(compare: ir.Operation) -> tuple[ir.Value | None, ir.Value]:
    """Return what a comparison says is below what; nothing if it says something else."""
    left, right = compare.operands
    predicate = ir.IntegerAttr(compare.attributes["predicate"]).value
    if predicate in (Compare.SGT, Compare.UGT):
        return right, left
    return left if predicate in (Compare.SLT, Compare.ULT) else None, right


def _starts_below(first: ir.Value, compare: ir.Operation) -> bool:
    """Return whether a signed comparison of the counter is the same.

    So it is for an unsigned one of 64 bits that starts at a number that is not negative: with a bound that
    is, the loop would not end in the time that there is.
    """
    if ir.IntegerAttr(compare.attributes["predicate"]).value in (Compare.SLT, Compare.SGT):
        return True
    op, number = defining_op(first), constant_integer(first)
    is_natural = number >= 0 if number is not None else op is not None and op.name in POSITIONS
    return is_natural and scalar_bits(first.type) == INDEX_BITS


def _step(value: ir.Value, counters: Set[ir.Value]) -> ir.Value | None:
    """Return what ``value`` adds to one of ``counters``, if that is positive and does not overflow."""
    op = defining_op(value)
    if op is None or op.name != "arith.addi":
        return None
    left, right = op.operands
    counter, step = (left, right) if left in counters else (right, left)
    # By one it reaches the bound. 64 bits do not overflow in the time that there is.
    is_safe = constant_integer(step) == 1 or scalar_bits(value.type) == INDEX_BITS
    return step if counter in counters and is_safe and _is_positive(step) else None


def _is_positive(value: ir.Value) -> bool:
    """Return whether a step is a positive constant, or the number of work-items in the grid or a group."""
    op = defining_op(value)
    if op is None:
        return False
    if op.name == "arith.muli":
        return isinstance(value.type, ir.IndexType) and all(map(_is_positive, op.operands))
    return op.name in _SIZES or (constant_integer(value) or 0) > 0


def _replace(op: ir.Operation, number: int) -> None:
    """Make an ``scf.for`` of a loop whose argument ``number`` counts."""
    before, after = (region.blocks[0] for region in op.regions)
    compare, condition = operations(before)
    initial, arguments, following = (
        list(values) for values in (op.operands, before.arguments, terminator(after).operands)
    )
    first, counter, next_count = (values.pop(number) for values in (initial, arguments, following))
    emit, kinds = Emitter(op), [counter.type, *(value.type for value in initial)]
    step = _step(next_count, set(after.arguments))
    loop = emit.op("scf.for", [first, _below(compare)[1], step, *initial], kinds[1:], regions=1)
    body = loop.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    end = emit.inside(body).op("scf.yield", following, [])
    in_body = dict(zip([counter, *arguments], body.arguments, strict=True))
    behind = dict(zip(arguments, loop.results, strict=True))
    passed = list(condition.operands)[1:]
    for argument, result, value in zip(after.arguments, op.results, passed, strict=True):
        argument.replace_all_uses_with(in_body.get(value, value))
        if value != counter:  # else nothing needs it
            result.replace_all_uses_with(behind.get(value, value))
    for inner in body_operations(after):
        inner.move_before(end)
    op.erase()
