"""The identity-index rule: indices that give different work-items different elements.

An index is a sum of ids and loop counters, each times a factor that is the same for all work-items:
``block_id x * block_dim x + thread_id x`` and ``global_id x`` have the same form. The counter of a loop is
the loop's first value plus its step times the number of the iteration.

When all accesses to a memory have indices of one form, and the form is one-to-one, no two work-items access
the same element. A form is one-to-one when its variables, ordered by factor, are like the digits of a number:
each factor is larger than the sum that the smaller ones can reach. The sizes that this takes are checked
when the kernel starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.accesses import Use
from gpubuild.engine.backends.cpu.sanitizer.ranges import (
    Range,
    Ranges,
    Truth,
    axis_of,
    constant,
    is_index,
    same,
)
from gpubuild.engine.ir.query import constant_integer

# What sums are made of: ("thread_id", "x"), ("block_dim", "x"), ("argument", 0), ("dim", argument, number),
# or ("trip", loop): the number of an iteration.
Atom = tuple[str | int, ...]
Monomial = tuple[Atom, ...]
Proof: TypeAlias = tuple[Sequence[Use], Sequence[Truth]]  # accesses without an error if all of that holds
_VARIABLES = frozenset({"thread_id", "block_id", "trip"})
_MOST_MONOMIALS = 16


@dataclass(frozen=True, slots=True)
class Sum:
    """Products of atoms, each with a factor."""

    terms: frozenset[tuple[Monomial, int]]

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """Return ``self + factor * other``."""
        found = dict(self.terms)
        for monomial, number in other.terms:
            found[monomial] = found.get(monomial, 0) + factor * number
        return _sum(found)

    def times(self, other: Sum) -> Sum:
        """Return the product."""
        found: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted((*left, *right), key=repr))
                found[monomial] = found.get(monomial, 0) + a * b
        return _sum(found)


@dataclass(frozen=True, slots=True)
class Form:
    """``fixed`` plus each variable times its factor; factors and ``fixed`` are the same for all."""

    fixed: Sum
    factors: frozenset[tuple[Atom, Sum]]

    @property
    def variables(self) -> set[Atom]:
        """The identities and iterations in it."""
        return {atom for atom, _ in self.factors}


class Forms:
    """The forms of the values of one kernel."""

    def __init__(self, entry: ir.Block) -> None:
        self.loops: list[ir.Operation] = []  # by number
        self._entry = entry
        self._known: dict[ir.Value, Sum | None] = {}

    def of(self, index: ir.Value) -> Form | None:
        """Return the form of an index, if it has one."""
        total = self.sum_of(index)
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
        return Form(_sum(fixed), frozenset((atom, _sum(parts)) for atom, parts in factors.items()))

    def sum_of(self, value: ir.Value) -> Sum | None:
        """Return ``value`` as a sum; ``None`` when it is something else."""
        if value not in self._known:
            self._known[value] = None
            found = self._compute(value)
            self._known[value] = found if found and len(found.terms) <= _MOST_MONOMIALS else None
        return self._known[value]

    def _compute(self, value: ir.Value) -> Sum | None:
        if isinstance(value.owner, ir.Block):
            return self._argument(value)
        op = value.owner.operation
        number = constant_integer(value)
        if number is not None:
            return fixed(number)
        if not is_index(value):
            return None
        if op.name in {"arith.addi", "arith.subi", "arith.muli"}:
            left, right = map(self.sum_of, op.operands)
            if left is None or right is None:
                return None
            if op.name == "arith.muli":
                return left.times(right)
            return left.plus(right, 1 if op.name == "arith.addi" else -1)
        if op.name == "arith.shli" and (by := constant_integer(op.operands[1])) is not None and 0 <= by < 30:
            left = self.sum_of(op.operands[0])
            return None if left is None else left.times(fixed(1 << by))
        return self._leaf(op)

    def _leaf(self, op: ir.Operation) -> Sum | None:
        name = op.name.removeprefix("gpu.")
        if op.name == "gpu.global_id":
            axis = axis_of(op)
            before = _atom("block_id", axis).times(_atom("block_dim", axis))
            return before.plus(_atom("thread_id", axis))
        if op.name in {"gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim"}:
            return _atom(name, axis_of(op))
        if op.name in {"arith.index_cast", "arith.index_castui"}:
            source = op.operands[0]
            if (known := constant_integer(source)) is not None:
                return fixed(known)
            return _atom(op.name, _number(source)) if self._is_argument(source) else None
        if op.name == "memref.dim" and self._is_argument(op.operands[0]):
            number = constant_integer(op.operands[1])
            return None if number is None else _atom("dim", _number(op.operands[0]), number)
        return None

    def _argument(self, value: ir.Value) -> Sum | None:
        if not is_index(value):
            return None
        if self._is_argument(value):
            return _atom("argument", _number(value))
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or "unsignedCmp" in loop.attributes or value != value.owner.arguments[0]:
            return None
        start, step = self.sum_of(loop.operands[0]), self.sum_of(loop.operands[2])
        if start is None or step is None:
            return None
        if loop not in self.loops:
            self.loops.append(loop)
        return start.plus(step.times(_atom("trip", self.loops.index(loop))))

    def _is_argument(self, value: ir.Value) -> bool:
        return isinstance(value.owner, ir.Block) and value.owner == self._entry


def fixed(number: int) -> Sum:
    """Return a constant."""
    return _sum({(): number})


def iteration_atoms(forms: Iterable[Form | None]) -> list[Atom]:
    """Return the loops whose iterations are in any of the forms, in the order of the forms."""
    found: dict[Atom, None] = {}
    for form in forms:
        mine = form.variables if form else set()
        found.update(dict.fromkeys(sorted((atom for atom in mine if atom[0] == "trip"), key=repr)))
    return list(found)


def renamed(form: Form, names: dict[Atom, Atom]) -> Form:
    """Return the same with other variables."""
    return Form(form.fixed, frozenset((names.get(atom, atom), factor) for atom, factor in form.factors))


def _number(argument: ir.Value) -> int:
    return int(ir.BlockArgument(argument).arg_number)


def number_of(total: Sum) -> int | None:
    """Return the sum as a number, when it is one."""
    parts = dict(total.terms)
    if not parts:
        return 0
    return parts[()] if parts.keys() == {()} else None


def _atom(*parts: str | int) -> Sum:
    return _sum({(parts,): 1})


def _sum(parts: dict[Monomial, int]) -> Sum:
    return Sum(frozenset((monomial, number) for monomial, number in parts.items() if number))


_AXES = "xyz"
_KINDS = {"thread_id": 0, "trip": 1, "block_id": 2}
_SHAPE = frozenset({"block_dim", "grid_dim"})
_ARGUMENTS = frozenset({"argument", "arith.index_cast", "arith.index_castui"})


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
        counts = self._iteration_counts(uses, [loops for _, loops in named])
        conditions: list[Truth] = []
        separated: set[Atom] = set()
        for forms in zip(*(forms for forms, _ in named), strict=True):
            form = forms[0]
            if form is None or any(other != form for other in forms[1:]):
                continue
            digits = self.digits(form, counts, launch=launch)
            if digits is not None:
                conditions += _distinct(self.ranges, digits)
                separated |= {digit.atom for digit in digits}
        for name, size in (("thread_id", "block_dim"), ("block_id", "grid_dim")):
            if name == "block_id" and not launch:
                continue
            for axis in _AXES:
                if (name, axis) in separated or self._is_pinned(uses, name, axis):
                    continue
                if len(separated & {(name, a) for a in _AXES}) == 0 and axis == "x":
                    return None  # it would have to be a single one: not what kernels are for
                conditions.append(self.ranges.numbers.equal(self.ranges.hardware(size, axis).high, 1))
        return conditions

    def digits(self, form: Form, counts: dict[Atom, Range], *, launch: bool) -> list[Digit] | None:
        """Return the variables of ``form``, the one that should have the smallest factor first."""
        found: list[tuple[tuple[int, int, int, int], Digit]] = []
        for atom, total in sorted(form.factors, key=lambda pair: repr(pair[0])):
            if atom[0] == "block_id" and not launch:
                continue  # the same for all
            factor, known = _range_of(self.ranges, total), number_of(total)
            count = counts.get(atom) if atom[0] == "trip" else self._count(atom)
            if factor is None or count is None or (known is not None and known <= 0):
                return None
            size = 0 if known is not None else 1 + max(len(m) for m, _ in total.terms)
            # A row of a matrix is at least as long as what the grid has of it: `row * n + col`.
            lengths = max((sum(a[0] not in _SHAPE for a in m) for m, _ in total.terms), default=0)
            order = (lengths, size, known or 0, _KINDS[str(atom[0])])
            found.append((order, Digit(atom=atom, factor=factor, count=count)))
        return [digit for _, digit in sorted(found, key=lambda pair: pair[0])]

    def iteration_count(self, loop: ir.Operation, op: ir.Operation) -> Range | None:
        """Return how many iterations of ``loop`` there are at most, at the place of ``op`` in it."""
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
        """Return the forms of the indices with loops named by number, and these loops."""
        forms = [self.forms.of(index) for index in use.access.indices]
        loops = iteration_atoms(forms)
        names: dict[Atom, Atom] = {loop: ("trip", -1 - n) for n, loop in enumerate(loops)}
        return [form and renamed(form, names) for form in forms], loops

    def _iteration_counts(self, uses: Sequence[Use], loops: Sequence[list[Atom]]) -> dict[Atom, Range]:
        """Return the most iterations that any of the uses' loops has, by their common name."""
        counts: dict[Atom, Range | None] = {}
        n = self.ranges.numbers
        for use, mine in zip(uses, loops, strict=True):
            for number, atom in enumerate(mine):
                name: Atom = ("trip", -1 - number)
                count = self.iteration_count(self.forms.loops[int(atom[1])], use.op)
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
        """Return whether only one value of an identity gets to all the uses."""
        found = {self.pinned(use, name, axis) for use in uses}
        return len(found) == 1 and None not in found

    def pinned(self, use: Use, name: str, axis: str) -> int | None:
        """Return the only value of an identity that gets to ``use``, if there is one."""
        for value, range_ in self.ranges.facts_at(use.op).known.items():
            if isinstance(value.owner, ir.Block) or not isinstance(range_.low, int):
                continue
            op = value.owner.operation
            if op.name == f"gpu.{name}" and axis_of(op) == axis and same(range_.low, range_.high):
                return range_.low
        return None


def _distinct(ranges: Ranges, digits: Sequence[Digit]) -> list[Truth]:
    """Return what must hold for different digits to give different numbers."""
    conditions: list[Truth] = []
    reach = constant(0)
    for digit in digits:
        conditions.append(ranges.numbers.less(reach.high, digit.factor.low))
        conditions += digit.factor.given
        reach = reach_with(ranges, reach, digit)
        conditions += reach.given
    return conditions


def reach_with(ranges: Ranges, reach: Range, digit: Digit) -> Range:
    """Return the largest number that the digits so far and ``digit`` give."""
    count = replace(digit.count, low=digit.count.high)
    most = ranges.product(digit.factor, ranges.sum(count, constant(-1)))
    total = ranges.narrow(ranges.sum(reach, most))
    return replace(total, low=total.high)


def _range_of(ranges: Ranges, total: Sum) -> Range | None:
    """Return the range of a sum that is the same for the whole launch: a single number."""
    result = constant(0)
    for monomial, factor in sorted(total.terms, key=repr):
        part = constant(factor)
        for atom in monomial:
            leaf = _range_of_atom(ranges, atom)
            if leaf is None:
                return None
            part = ranges.product(part, leaf)
        result = ranges.sum(result, part)
    return result


def _range_of_atom(ranges: Ranges, atom: Atom) -> Range | None:
    name = str(atom[0])
    if name in _SHAPE:
        return ranges.hardware(name, str(atom[1]))
    if name == "dim":
        return ranges.argument_size(int(atom[1]), int(atom[2]))
    if name in _ARGUMENTS:
        return ranges.argument(int(atom[1]), name)
    return None
