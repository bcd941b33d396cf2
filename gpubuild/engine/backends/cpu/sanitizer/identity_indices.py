"""The identity-index rule: indices that give different work-items different elements.

An index is a sum of ids and loop iterations, each times a factor that is the same for all work-items:
``block_id x * block_dim x + thread_id x`` and ``global_id x`` have the same form. The counter of a loop is
the loop's first value plus its step times the number of the iteration.

When all accesses to a memory have indices of one form, and the form is one-to-one, no two work-items access
the same element. A form is one-to-one when its variables, ordered by factor, are like the digits of a number:
each factor is larger than the sum that the smaller ones can reach. The sizes that this needs are checked
when the kernel starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import axis_of
from gpubuild.engine.backends.cpu.sanitizer.accesses import Use
from gpubuild.engine.backends.cpu.sanitizer.ranges import (
    Facts,
    Range,
    Ranges,
    Truth,
    constant,
    is_index,
)
from gpubuild.engine.ir.query import constant_integer, defining_op

# A factor of a product: ("thread_id", "x"), ("block_dim", "x"), ("iteration", number of the loop), or
# ("uniform", number): another value that is the same for the whole launch.
Atom = tuple[str, str | int]
Monomial = tuple[Atom, ...]
Proof: TypeAlias = tuple[Sequence[Use], Sequence[Truth]]  # accesses without an error if all of that holds
_VARIABLES = {"thread_id": 0, "iteration": 1, "block_id": 2}  # their order where factors are equal
_SHAPE = frozenset({"block_dim", "grid_dim"})
_MOST_MONOMIALS = 16
_AXES = "xyz"


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of products of atoms, each with an integer factor."""

    terms: frozenset[tuple[Monomial, int]]

    @classmethod
    def of(cls, parts: dict[Monomial, int]) -> Sum:
        """Return the sum with these factors, of which zeros are left out."""
        return cls(frozenset((monomial, number) for monomial, number in parts.items() if number))

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return ``self + factor * other``."""
        found = dict(self.terms)
        for monomial, number in other.terms:
            found[monomial] = found.get(monomial, 0) + factor * number
        return Sum.of(found)

    def times(self, other: Sum) -> Sum:
        """Return the product."""
        found: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted((*left, *right), key=repr))
                found[monomial] = found.get(monomial, 0) + a * b
        return Sum.of(found)

    @property
    def number(self) -> int | None:
        """Return the sum as a number, if it is a constant."""
        parts = dict(self.terms)
        return parts.get((), 0) if parts.keys() <= {()} else None


def _fixed(number: int) -> Sum:
    return Sum.of({(): number})


def _atom(name: str, which: str | int) -> Sum:
    return Sum.of({((name, which),): 1})


@dataclass(frozen=True, slots=True)
class Form:
    """``fixed`` plus each variable times its factor; factors and ``fixed`` are the same for all."""

    fixed: Sum
    factors: frozenset[tuple[Atom, Sum]]

    @property
    def variables(self) -> set[Atom]:
        """Return the ids and loop iterations in it."""
        return {atom for atom, _ in self.factors}


@dataclass(frozen=True, slots=True, kw_only=True)
class Digit:
    """A variable of a form: its factor, and the number of its values from zero on."""

    atom: Atom
    factor: Range
    count: Range


class IndexForms:
    """The forms of the indices of one kernel, and what follows from them."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.loops: list[ir.Operation] = []  # by number
        self._uniform: list[Range] = []  # by number
        self._facts = Facts()  # without conditions
        self._known: dict[ir.Value, Sum | None] = {}

    # ---- forms ----

    def of(self, index: ir.Value) -> Form | None:
        """Return the form of an index, if it has one."""
        total = self._sum_of(index)
        if total is None:
            return None
        fixed: dict[Monomial, int] = {}
        factors: dict[Atom, dict[Monomial, int]] = {}
        for monomial, number in total.terms:
            variables = [atom for atom in monomial if atom[0] in _VARIABLES]
            if len(variables) > 1:
                return None
            if variables:
                rest = tuple(atom for atom in monomial if atom != variables[0])
                factors.setdefault(variables[0], {})[rest] = number
            else:
                fixed[monomial] = number
        return Form(Sum.of(fixed), frozenset((atom, Sum.of(parts)) for atom, parts in factors.items()))

    def _sum_of(self, value: ir.Value) -> Sum | None:
        if value not in self._known:
            self._known[value] = None
            found = self._compute(value) if is_index(value) else None
            self._known[value] = found if found and len(found.terms) <= _MOST_MONOMIALS else None
        return self._known[value]

    def _compute(self, value: ir.Value) -> Sum | None:
        op = defining_op(value)
        if op is None:
            return self._uniform_atom(value) if self.ranges.is_argument(value) else self._counter(value)
        if op.name in {"arith.addi", "arith.subi", "arith.muli"}:
            left, right = map(self._sum_of, op.operands)
            if left is None or right is None:
                return None
            if op.name == "arith.muli":
                return left.times(right)
            return left.plus(right, 1 if op.name == "arith.addi" else -1)
        if op.name == "arith.shli" and (by := constant_integer(op.operands[1])) is not None and 0 <= by < 30:
            left = self._sum_of(op.operands[0])
            return None if left is None else left.times(_fixed(1 << by))
        name = op.name.removeprefix("gpu.")
        if name == "global_id":
            axis = axis_of(op)
            before = _atom("block_id", axis).times(_atom("block_dim", axis))
            return before.plus(_atom("thread_id", axis))
        if name in _VARIABLES or name in _SHAPE:
            return _atom(name, axis_of(op))
        return self._uniform_atom(value)

    def _uniform_atom(self, value: ir.Value) -> Sum | None:
        range_ = self.ranges.of(value, self._facts)
        if range_ is None or not range_.is_single:
            return None
        if isinstance(range_.low, int):
            return _fixed(range_.low)
        if range_ not in self._uniform:
            self._uniform.append(range_)
        return _atom("uniform", self._uniform.index(range_))

    def _counter(self, value: ir.Value) -> Sum | None:
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or "unsignedCmp" in loop.attributes or value != value.owner.arguments[0]:
            return None
        start, step = self._sum_of(loop.operands[0]), self._sum_of(loop.operands[2])
        if start is None or step is None:
            return None
        if loop not in self.loops:
            self.loops.append(loop)
        return start.plus(step.times(_atom("iteration", self.loops.index(loop))))

    # ---- what follows ----

    def disjoint(self, uses: Sequence[Use], *, launch: bool) -> list[Truth] | None:
        """Return when no two work-items access the same element, of a launch or of a workgroup.

        ``None`` when that is not known. Indices must be in bounds, and all uses have a form in common.
        """
        if any(use.access.count != 1 or use.access.masked for use in uses):
            return None
        counts: dict[Atom, Range | None] = {}
        forms = [self._forms(use, counts) for use in uses]
        known = {atom: count for atom, count in counts.items() if count is not None}
        conditions: list[Truth] = []
        distinct: set[Atom] = set()
        for form, *others in zip(*forms, strict=True):
            if form is None or any(other != form for other in others):
                continue
            digits = self.digits(form, known, launch=launch)
            if digits is not None:
                conditions += self._distinct(digits)
                distinct |= {digit.atom for digit in digits}
        for name, size in (("thread_id", "block_dim"), ("block_id", "grid_dim"))[: 2 if launch else 1]:
            missing = [axis for axis in _AXES if (name, axis) not in distinct]
            missing = [axis for axis in missing if not self._is_pinned(uses, name, axis)]
            if len(distinct & {(name, axis) for axis in _AXES}) == 0 and "x" in missing:
                return None  # it would have to be a single one, which is not usual
            conditions += (
                self.ranges.numbers.equal(self.ranges.hardware(size, axis).high, 1) for axis in missing
            )
        return conditions

    def digits(self, form: Form, counts: dict[Atom, Range], *, launch: bool) -> list[Digit] | None:
        """Return the variables of ``form``, the one that should have the smallest factor first."""
        found: list[tuple[tuple[int, int, int, int], Digit]] = []
        for atom, total in sorted(form.factors, key=lambda pair: repr(pair[0])):
            if atom[0] == "block_id" and not launch:
                continue  # the same for all
            known = total.number
            if atom[0] == "iteration":
                count = counts.get(atom)
            else:
                count = self.ranges.hardware(
                    "block_dim" if atom[0] == "thread_id" else "grid_dim", str(atom[1])
                )
            if count is None or (known is not None and known <= 0):
                return None
            size = 0 if known is not None else 1 + max(len(m) for m, _ in total.terms)
            # A row of a matrix is at least as long as the grid's part of it: `row * n + col`.
            lengths = max((sum(a[0] not in _SHAPE for a in m) for m, _ in total.terms), default=0)
            order = (lengths, size, known or 0, _VARIABLES[atom[0]])
            found.append((order, Digit(atom=atom, factor=self._range_of(total), count=count)))
        return [digit for _, digit in sorted(found, key=lambda pair: pair[0])]

    def reach_with(self, reach: Range, digit: Digit) -> Range:
        """Return the largest number that the digits so far and ``digit`` give."""
        count = replace(digit.count, low=digit.count.high)
        most = self.ranges.product(digit.factor, self.ranges.sum(count, constant(-1)))
        total = self.ranges.narrow(self.ranges.sum(reach, most))
        return replace(total, low=total.high)

    def iteration_count(self, loop: ir.Operation, op: ir.Operation) -> Range | None:
        """Return the most iterations of ``loop`` that reach ``op``."""
        facts = self.ranges.facts_at(op)
        lower, upper, step = (self.ranges.of(v, facts) for v in list(loop.operands)[:3])
        if lower is None or upper is None or step is None:
            return None
        n = self.ranges.numbers
        span = self.ranges.sum(self.ranges.difference(upper, lower), constant(-1))
        high = n.most(n.add(n.divide(n.most(span.high, 0), n.most(step.low, 1)), 1), 1)
        given = (*span.given, *step.given, n.less(0, step.low))
        return Range(low=1, high=high, bits=span.bits + 1, given=given)

    def pinned(self, use: Use, name: str, axis: str) -> int | None:
        """Return the only value of an id with which ``use`` is reached, if there is one."""
        for value, range_ in self.ranges.facts_at(use.op).known.items():
            op = defining_op(value)
            if op is not None and op.name == f"gpu.{name}" and axis_of(op) == axis and range_.is_single:
                return range_.low if isinstance(range_.low, int) else None
        return None

    def _is_pinned(self, uses: Sequence[Use], name: str, axis: str) -> bool:
        """Whether all uses are reached with one and the same value of an id."""
        found = {self.pinned(use, name, axis) for use in uses}
        return len(found) == 1 and None not in found

    def _forms(self, use: Use, counts: dict[Atom, Range | None]) -> list[Form | None]:
        """Return the forms of the indices, with loops numbered from 0 for each use.

        Adds the most iterations of these loops to ``counts``; ``None`` where that is not known.
        """
        forms = [self.of(index) for index in use.access.indices]
        names: dict[Atom, Atom] = {}
        for form in forms:
            for atom in sorted(form.variables if form else (), key=repr):
                if atom[0] == "iteration" and atom not in names:
                    names[atom] = ("iteration", len(names))
                    count = self.iteration_count(self.loops[int(atom[1])], use.op)
                    other = counts.setdefault(names[atom], count)
                    counts[names[atom]] = self._either(count, other)
        return [
            form and Form(form.fixed, frozenset((names.get(atom, atom), by) for atom, by in form.factors))
            for form in forms
        ]

    def _either(self, a: Range | None, b: Range | None) -> Range | None:
        if a is None or b is None or a == b:
            return a and b
        high, bits = self.ranges.numbers.most(a.high, b.high), max(a.bits, b.bits)
        return Range(low=a.low, high=high, bits=bits, given=a.given + b.given)

    def _distinct(self, digits: Sequence[Digit]) -> list[Truth]:
        """Return the conditions under which different digits give different numbers."""
        conditions: list[Truth] = []
        reach = constant(0)
        for digit in digits:
            conditions.append(self.ranges.numbers.less(reach.high, digit.factor.low))
            conditions += digit.factor.given
            reach = self.reach_with(reach, digit)
            conditions += reach.given
        return conditions

    def _range_of(self, total: Sum) -> Range:
        """Return the range of a sum without variables: a single number."""
        result = constant(0)
        for monomial, factor in sorted(total.terms, key=repr):
            part = constant(factor)
            for name, which in monomial:
                if name == "uniform":
                    part = self.ranges.product(part, self._uniform[int(which)])
                else:
                    part = self.ranges.product(part, self.ranges.hardware(str(name), str(which)))
            result = self.ranges.sum(result, part)
        return result
