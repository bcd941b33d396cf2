"""Check halves: reductions in workgroup memory, where the lower work-items take what the upper half holds.

    if t < n: s[t] = s[t] + s[t + n]

Below ``n`` there are writes only, each by its work-item, and from ``n`` on there are reads only. That holds
if ``n`` is the same for all who are between the same two barriers: a constant, or a number that each
iteration of a loop computes from the one before, with a barrier in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.sanitizer.check_forms import number_of
from gpubuild.engine.backends.cpu.sanitizer.check_memory import Use
from gpubuild.engine.backends.cpu.sanitizer.check_numbers import Truth
from gpubuild.engine.backends.cpu.sanitizer.check_owners import Owners
from gpubuild.engine.backends.cpu.sanitizer.check_range import constant_of
from gpubuild.engine.backends.cpu.sanitizer.check_segments import MEETINGS

_LESS_UNSIGNED = 6  # arith.cmpi predicate
_STEPS = frozenset({"arith.shrui", "arith.divui", "arith.muli", "arith.addi", "arith.subi", "arith.shli"})


def without_upper_halves(uses: Sequence[Use], owners: Owners) -> tuple[list[Use], list[Truth]]:
    """The uses among which work-items may still meet, and what must hold for the others not to matter."""
    kept, conditions = list(uses), []
    if not all(use.direct and len(use.access.indices) == 1 and use.access.count == 1 for use in uses):
        return kept, []
    for use in uses:
        if use.access.mode != image_layout.CHECK_READ or use.access.masked:
            continue
        found = _is_above(use, uses, owners)
        if found is None:
            found = _is_first(use, uses, owners)
        if found is not None:
            kept.remove(use)
            conditions += found
    return kept, conditions


def _is_above(use: Use, uses: Sequence[Use], owners: Owners) -> list[Truth] | None:
    """Whether ``use`` reads at ``x + n``, and all who write do so below that ``n``."""
    index = use.access.indices[0]
    if isinstance(index.owner, ir.Block) or index.owner.operation.name != "arith.addi":
        return None
    writers = [other for other in uses if other.access.mode != image_layout.CHECK_READ]
    facts = owners.ranges.facts_at(use.op)
    left, right = index.owner.operation.operands
    for start, limit in ((left, right), (right, left)):
        ranges = [owners.ranges.of(value, facts) for value in (index, start, limit)]
        if any(r is None or not isinstance(r.low, int) or r.low < 0 for r in ranges):
            continue
        if not all(_is_guarded(other, limit) for other in writers):
            continue
        if _is_same_for_all(limit, [use, *writers]):
            return [condition for r in ranges if r is not None for condition in r.given]
    return None


def _is_guarded(use: Use, limit: ir.Value) -> bool:
    """Whether ``use`` is made only where its index is less than ``limit``."""
    index, block = use.access.indices[0], use.op.operation.block
    while block.owner.operation.name != "gpu.func":
        owner = block.owner.operation
        if owner.name == "scf.if" and owner.regions[0].blocks[0] == block:
            condition = owner.operands[0]
            compare = None if isinstance(condition.owner, ir.Block) else condition.owner.operation
            if (
                compare is not None
                and compare.name == "arith.cmpi"
                and ir.IntegerAttr(compare.attributes["predicate"]).value == _LESS_UNSIGNED
                and list(compare.operands) == [index, limit]
            ):
                return True
        block = owner.block
    return False


def _is_same_for_all(limit: ir.Value, uses: Sequence[Use]) -> bool:
    """Whether work-items between the same two barriers have the same ``limit`` at the uses."""
    if constant_of(limit) is not None:
        return True
    if not isinstance(limit.owner, ir.Block) or limit.owner.owner.operation.name != "scf.for":
        return False
    loop, body = limit.owner.owner.operation, limit.owner
    number = list(body.arguments).index(limit)
    meetings = [op for op in nested(loop) if op.name in MEETINGS]
    starts = [*list(loop.operands)[:3], loop.operands[2 + number]]
    if number == 0 or not meetings or any(constant_of(value) is None for value in starts):
        return False
    # All iterations have the same barriers, and a constant number of them: who has passed as many
    # barriers is in the same iteration.
    if any(op.parent.operation != loop for op in meetings):
        return False
    following = terminator(body).operands[number - 1]
    if isinstance(following.owner, ir.Block) or following.owner.operation.name not in _STEPS:
        return False
    step = following.owner.operation
    if step.operands[0] != limit or constant_of(step.operands[1]) is None:
        return False
    return all(_is_before_barriers(use.op, loop) for use in uses)


def _is_before_barriers(op: ir.Operation, loop: ir.Operation) -> bool:
    """Whether ``op`` is in the loop's body, before the first barrier there."""
    while op.parent is not None and op.parent.operation != loop:
        op = op.parent.operation
    if op.parent is None:
        return False
    inside = list(operations(loop.regions[0].blocks[0]))
    return inside.index(op) < next(n for n, other in enumerate(inside) if other.name in MEETINGS)


def _is_first(use: Use, uses: Sequence[Use], owners: Owners) -> list[Truth] | None:
    """Whether ``use`` is one work-item's, of the element that is its own by the indices of all who write."""
    index = constant_of(use.access.indices[0])
    mine = owners.pinned(use, "thread_id", "x")
    writers = [other for other in uses if other.access.mode != image_layout.CHECK_READ]
    if index is None or mine is None or not writers:
        return None
    for other in writers:
        form = owners.forms.of(other.access.indices[0])
        if form is None or form.variables != {("thread_id", "x")}:
            return None
        ((_, factor),) = form.factors
        scale, fixed = number_of(factor), number_of(form.fixed)
        if scale is None or fixed is None or scale * mine + fixed != index:
            return None
    numbers = owners.ranges.numbers
    return [numbers.equal(owners.ranges.hardware("block_dim", axis).high, 1) for axis in "yz"]
