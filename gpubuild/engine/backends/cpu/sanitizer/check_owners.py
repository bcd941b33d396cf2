"""Check owners: whether indices tell which work-item they belong to.

When all accesses to a memory have indices of one form, and the form gives different work-items different
elements, no two work-items meet there. A dimension's form does when its variables, from the one with the
smallest factor to the one with the largest, are like the digits of a number: each factor is larger than all
that the smaller ones can add up to. What sizes it takes for that is asked when the kernel starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_forms import Atom, Form, Forms, number_of, renamed, turns
from gpubuild.engine.backends.cpu.sanitizer.check_memory import Use
from gpubuild.engine.backends.cpu.sanitizer.check_numbers import Truth, same
from gpubuild.engine.backends.cpu.sanitizer.check_range import Range, axis_of, constant
from gpubuild.engine.backends.cpu.sanitizer.check_ranges import Ranges

_AXES = "xyz"
_KINDS = {"thread_id": 0, "turn": 1, "block_id": 2}
_SHAPE = frozenset({"block_dim", "grid_dim"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Digit:
    """A variable of a form: its factor, and how many values it has from zero on."""

    atom: Atom
    factor: Range
    count: Range


class Owners:
    """Questions about the indices of one kernel."""

    def __init__(self, ranges: Ranges, forms: Forms) -> None:
        self.ranges = ranges
        self.forms = forms

    def apart(self, uses: Sequence[Use], *, launch: bool) -> list[Truth] | None:
        """What must hold for no two work-items to access the same element, of a launch or of a workgroup.

        ``None`` when that is not known. Indices must be in bounds, and all uses have a form in common.
        """
        named = [self._forms(use) for use in uses]
        if any(use.access.count != 1 or use.access.masked for use in uses):
            return None
        counts = self._turn_counts(uses, [loops for _, loops in named])
        conditions: list[Truth] = []
        told: set[Atom] = set()
        for forms in zip(*(forms for forms, _ in named), strict=True):
            form = forms[0]
            if form is None or any(other != form for other in forms[1:]):
                continue
            digits = self.digits(form, counts, launch=launch)
            if digits is not None:
                conditions += _distinct(self.ranges, digits)
                told |= {digit.atom for digit in digits}
        for name, size in (("thread_id", "block_dim"), ("block_id", "grid_dim")):
            if name == "block_id" and not launch:
                continue
            for axis in _AXES:
                if (name, axis) in told or self._is_pinned(uses, name, axis):
                    continue
                if len(told & {(name, a) for a in _AXES}) == 0 and axis == "x":
                    return None  # it would have to be a single one: not what kernels are for
                conditions.append(self.ranges.numbers.equal(self.ranges.hardware(size, axis).high, 1))
        return conditions

    def digits(self, form: Form, counts: dict[Atom, Range], *, launch: bool) -> list[Digit] | None:
        """The variables of ``form``, the one that should have the smallest factor first."""
        found: list[tuple[tuple[int, int, int, int], Digit]] = []
        for atom, total in sorted(form.factors, key=lambda pair: repr(pair[0])):
            if atom[0] == "block_id" and not launch:
                continue  # the same for all
            factor, known = self.ranges.of_sum(total), number_of(total)
            count = counts.get(atom) if atom[0] == "turn" else self._count(atom)
            if factor is None or count is None or (known is not None and known <= 0):
                return None
            size = 0 if known is not None else 1 + max(len(m) for m, _ in total.terms)
            # A row of a matrix is at least as long as what the grid has of it: `row * n + col`.
            lengths = max((sum(a[0] not in _SHAPE for a in m) for m, _ in total.terms), default=0)
            order = (lengths, size, known or 0, _KINDS[str(atom[0])])
            found.append((order, Digit(atom=atom, factor=factor, count=count)))
        return [digit for _, digit in sorted(found, key=lambda pair: pair[0])]

    def turn_count(self, loop: ir.Operation, op: ir.Operation) -> Range | None:
        """How many turns of ``loop`` there are at most, at the place of ``op`` in it."""
        facts = self.ranges.facts_at(op)
        lower, upper, step = (self.ranges.of(v, facts) for v in list(loop.operands)[:3])
        if lower is None or upper is None or step is None:
            return None
        ranges, n = self.ranges, self.ranges.numbers
        span = ranges.sum(ranges.sum(upper, ranges.product(lower, constant(-1))), constant(-1))
        high = n.most(n.add(n.divide(n.most(span.high, 0), n.most(step.low, 1)), 1), 1)
        given = (*span.given, *step.given, n.less(0, step.low))
        return Range(low=1, high=high, bits=span.bits + 1, given=given)

    def _count(self, atom: Atom) -> Range:
        size = "block_dim" if atom[0] == "thread_id" else "grid_dim"
        return self.ranges.hardware(size, str(atom[1]))

    def _forms(self, use: Use) -> tuple[list[Form | None], list[Atom]]:
        """The forms of the indices with turns called by number, and the loops that these were of."""
        forms = [self.forms.of(index) for index in use.access.indices]
        loops = turns(forms)
        names: dict[Atom, Atom] = {loop: ("turn", -1 - n) for n, loop in enumerate(loops)}
        return [form and renamed(form, names) for form in forms], loops

    def _turn_counts(self, uses: Sequence[Use], loops: Sequence[list[Atom]]) -> dict[Atom, Range]:
        """The most turns that any of the uses' loops has, by the name that they have in common."""
        counts: dict[Atom, Range | None] = {}
        n = self.ranges.numbers
        for use, mine in zip(uses, loops, strict=True):
            for number, atom in enumerate(mine):
                name: Atom = ("turn", -1 - number)
                count = self.turn_count(self.forms.loops[int(atom[1])], use.op)
                other = counts.get(name, count)
                if count is None or other is None:
                    counts[name] = None
                else:
                    counts[name] = replace(
                        count,
                        high=n.most(count.high, other.high),
                        bits=max(count.bits, other.bits),
                        given=count.given + other.given,
                    )
        return {name: count for name, count in counts.items() if count is not None}

    def _is_pinned(self, uses: Sequence[Use], name: str, axis: str) -> bool:
        """Whether only one value of an identity gets to all the uses."""
        found = {self.pinned(use, name, axis) for use in uses}
        return len(found) == 1 and None not in found

    def pinned(self, use: Use, name: str, axis: str) -> int | None:
        """The only value of an identity that gets to ``use``, if there is one."""
        for value, range_ in self.ranges.facts_at(use.op).known.items():
            if isinstance(value.owner, ir.Block) or not isinstance(range_.low, int):
                continue
            op = value.owner.operation
            if op.name == f"gpu.{name}" and axis_of(op) == axis and same(range_.low, range_.high):
                return range_.low
        return None


def _distinct(ranges: Ranges, digits: Sequence[Digit]) -> list[Truth]:
    """What must hold for different digits to give different numbers."""
    conditions: list[Truth] = []
    reach = constant(0)
    for digit in digits:
        conditions.append(ranges.numbers.less(reach.high, digit.factor.low))
        conditions += digit.factor.given
        reach = reach_with(ranges, reach, digit)
        conditions += reach.given
    return conditions


def reach_with(ranges: Ranges, reach: Range, digit: Digit) -> Range:
    """The largest number that the digits so far and ``digit`` give."""
    count = replace(digit.count, low=digit.count.high)
    most = ranges.product(digit.factor, ranges.sum(count, constant(-1)))
    total = ranges.narrow(ranges.sum(reach, most))
    return replace(total, low=total.high)
