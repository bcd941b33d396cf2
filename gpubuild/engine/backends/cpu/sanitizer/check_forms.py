"""Check forms: indices as sums of identities and counters, each times a number that is the same for all.

``block_id x * block_dim x + thread_id x`` and ``global_id x`` have the same form. The counter of a loop is
where the loop begins plus its step times the number of the iteration.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_range import axis_of, constant_of, is_index

# What sums are made of: ("thread_id", "x"), ("block_dim", "x"), ("argument", 0), ("dim", argument, number),
# or ("turn", loop): the number of an iteration.
Atom = tuple[str | int, ...]
Monomial = tuple[Atom, ...]
_VARIABLES = frozenset({"thread_id", "block_id", "turn"})
_MOST_MONOMIALS = 16


@dataclass(frozen=True, slots=True)
class Sum:
    """Products of atoms, each with a factor."""

    terms: frozenset[tuple[Monomial, int]]

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """``self + factor * other``."""
        found = dict(self.terms)
        for monomial, number in other.terms:
            found[monomial] = found.get(monomial, 0) + factor * number
        return _sum(found)

    def times(self, other: Sum) -> Sum:
        """The product."""
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
        """The identities and turns in it."""
        return {atom for atom, _ in self.factors}


class Forms:
    """The forms of the values of one kernel."""

    def __init__(self, entry: ir.Block) -> None:
        self.loops: list[ir.Operation] = []  # by number
        self._entry = entry
        self._known: dict[ir.Value, Sum | None] = {}

    def of(self, index: ir.Value) -> Form | None:
        """The form of an index, if it has one."""
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
        """``value`` as a sum; ``None`` when it is something else."""
        if value not in self._known:
            self._known[value] = None
            found = self._compute(value)
            self._known[value] = found if found and len(found.terms) <= _MOST_MONOMIALS else None
        return self._known[value]

    def _compute(self, value: ir.Value) -> Sum | None:
        if isinstance(value.owner, ir.Block):
            return self._argument(value)
        op = value.owner.operation
        number = constant_of(value)
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
        if op.name == "arith.shli" and (by := constant_of(op.operands[1])) is not None and 0 <= by < 30:
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
            if (known := constant_of(source)) is not None:
                return fixed(known)
            return _atom(op.name, _number(source)) if self._is_argument(source) else None
        if op.name == "memref.dim" and self._is_argument(op.operands[0]):
            number = constant_of(op.operands[1])
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
        return start.plus(step.times(_atom("turn", self.loops.index(loop))))

    def _is_argument(self, value: ir.Value) -> bool:
        return isinstance(value.owner, ir.Block) and value.owner == self._entry


def fixed(number: int) -> Sum:
    """A constant."""
    return _sum({(): number})


def turns(forms: Iterable[Form | None]) -> list[Atom]:
    """The loops whose turns are in any of the forms, in the order of the forms."""
    found: dict[Atom, None] = {}
    for form in forms:
        mine = form.variables if form else set()
        found.update(dict.fromkeys(sorted((atom for atom in mine if atom[0] == "turn"), key=repr)))
    return list(found)


def renamed(form: Form, names: dict[Atom, Atom]) -> Form:
    """The same with other variables."""
    return Form(form.fixed, frozenset((names.get(atom, atom), factor) for atom, factor in form.factors))


def _number(argument: ir.Value) -> int:
    return int(ir.BlockArgument(argument).arg_number)


def number_of(total: Sum) -> int | None:
    """The sum as a number, when it is one."""
    parts = dict(total.terms)
    if not parts:
        return 0
    return parts[()] if parts.keys() == {()} else None


def _atom(*parts: str | int) -> Sum:
    return _sum({(parts,): 1})


def _sum(parts: dict[Monomial, int]) -> Sum:
    return Sum(frozenset((monomial, number) for monomial, number in parts.items() if number))
