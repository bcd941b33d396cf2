"""Guards such as ``if x < n`` become the bounds of the loop over work-items.

A condition inside a loop over work-items costs masked loads and stores, or keeps LLVM from vectorising.
Where what is compared grows by one from a work-item of a row to the next, those that pass are neighbours:
the loop runs from the first of them to the last, and no condition is left. Integers may overflow on the
way; then, and only then, the loop takes the work-items of the row one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, ItemLoops, for_loop, if_op
from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS, Interchange, is_id, may_jump
from gpubuild.engine.backends.cpu.fission.uniformity import (
    ITEM_IDS,
    Uniformity,
    is_pure,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import defining_op

_SWAPPED: dict[int, int] = {
    Compare.EQ: Compare.EQ,
    Compare.SLT: Compare.SGT,
    Compare.SLE: Compare.SGE,
    Compare.SGT: Compare.SLT,
    Compare.SGE: Compare.SLE,
    Compare.ULT: Compare.UGT,
    Compare.ULE: Compare.UGE,
    Compare.UGT: Compare.ULT,
    Compare.UGE: Compare.ULE,
}
_INVERSE: dict[int, int] = {  # of those that hold from some work-item on
    Compare.SGT: Compare.SLE,
    Compare.SGE: Compare.SLT,
    Compare.UGT: Compare.ULE,
    Compare.UGE: Compare.ULT,
}
_NOT_ABOVE: dict[int, int] = {
    Compare.SLT: Compare.SLE,
    Compare.SLE: Compare.SLE,
    Compare.ULT: Compare.ULE,
    Compare.ULE: Compare.ULE,
}
_LEAST_BITS = 32  # narrower integers could overflow several times in a row of 1,024 work-items


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """``growing <predicate> bound``; without ``growing``, ``bound`` is a condition all of a row shares."""

    bound: ir.Value
    growing: ir.Value | None = None
    predicate: int = Compare.EQ


@dataclass(slots=True, kw_only=True)
class RowLoops:
    """The values of one row under construction: what the kernel's values are for its work-item ``x``."""

    once: dict[ir.Value, ir.Value]
    old: set[ir.Value]
    place: ItemLoops
    known: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def value(self, value: ir.Value, emit: Emitter) -> ir.Value:
        """Return a value that is computed from ids and from what is the same for all."""
        if value not in self.old:
            return value
        if value in self.once:
            return self.once[value]
        if value not in self.known:
            op = value.owner.operation
            if op.name in ITEM_IDS:
                self.known[value] = self.place.identity(op, emit)
            else:
                operands = [self.value(operand, emit) for operand in op.operands]
                new = emit.copy(op)
                for index, operand in enumerate(operands):
                    new.operands[index] = operand
                self.known.update(zip(op.results, new.results, strict=True))
        return self.known[value]


class BoundsChecks:
    """Finds the guards among the ``scf.if`` of a function, and builds loops that run what is inside."""

    def __init__(self, interchange: Interchange, once: dict[ir.Value, ir.Value], old: set[ir.Value]) -> None:
        self._uniform = interchange.uniform
        self._once = once
        self._old = old
        self._free: dict[ir.Value, bool] = {}
        self._off = False

    def switch_off(self) -> None:
        """Take no ``scf.if`` for a guard from now on."""
        self._off = True

    def segments(self, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value]) -> list[list[ir.Operation]]:
        """Cut what lies between barriers in front of and behind each check, where no value crosses.

        Work-items may run in any order there. Values without side effects are computed on both sides;
        ``wanted`` ones are needed at the end.
        """
        parts: list[list[ir.Operation]] = [[]]
        for number, op in enumerate(ops):
            apart = self.is_check(op) and not any(_crosses(ops, at, wanted) for at in (number, number + 1))
            if apart:
                parts += [[op], []]
            else:
                parts[-1].append(op)
        return [part for part in parts if part]

    def is_check(self, op: ir.Operation) -> bool:
        """Return whether :meth:`open` can make loops of ``op``."""
        if self._off or op.name != "scf.if" or len(op.results) or len(op.regions[1].blocks) or needs_item(op):
            return False
        terms = self._terms(op.operands[0])
        return terms is not None and any(term.growing is not None for term in terms)

    def open(self, op: ir.Operation, emit: Emitter, extents: Extents) -> ItemLoops:
        """Loops over the work-items for which the condition of ``op`` holds, with nothing in them yet."""
        terms = self._terms(op.operands[0]) or []
        zero, one = extents.zero, extents.one
        width = extents.block_dim[0]
        z, end = _loop(emit, zero, extents.block_dim[2], one)
        y, end = _loop(Emitter(end), zero, extents.block_dim[1], one)
        row = Emitter(end)
        first = self._row(extents, (zero, y, z), end)
        last = self._row(extents, (row.binary("arith.subi", width, one), y, z), end)
        lower, upper, ordered = zero, width, None
        for term in terms:
            if term.growing is None:
                upper = row.select(first.value(term.bound, row), upper, zero)
                continue
            start, bound = first.value(term.growing, row), first.value(term.bound, row)
            stop = last.value(term.growing, row)
            distance = _index(row, row.binary("arith.subi", stop, start))
            grows = row.compare(Compare.EQ, _next(row, distance, one), width)
            if term.predicate == Compare.EQ:
                place = _index(row, row.binary("arith.subi", bound, start))
                there = row.compare(Compare.ULT, place, width)
                lower = row.binary("arith.maxsi", lower, row.select(there, place, width))
                upper = row.binary("arith.minsi", upper, row.select(there, _next(row, place, one), zero))
                if not may_jump(term.growing):  # then no other work-item of the row has the same
                    continue
            else:
                below = _INVERSE.get(term.predicate, term.predicate)
                count = _prefix(row, below, (start, stop, bound), extents)
                if term.predicate in _INVERSE:
                    lower = row.binary("arith.maxsi", lower, count)
                else:
                    upper = row.binary("arith.minsi", upper, count)
                grows = row.binary("arith.andi", row.compare(_NOT_ABOVE[below], start, stop), grows)
            ordered = grows if ordered is None else row.binary("arith.andi", ordered, grows)
        if ordered is not None:
            at, end = _loop(row, zero, row.select(ordered, one, width), one)
            row = Emitter(end)
            mine = self._row(extents, (at, y, z), end).value(op.operands[0], row)
            lower = row.select(ordered, lower, at)
            upper = row.select(ordered, upper, row.select(mine, _next(row, at, one), at))
        if any(term.growing is not None and term.predicate == Compare.EQ for term in terms):
            some = if_op(row, row.compare(Compare.SLT, lower, upper), [], 1)
            return self._row(extents, (lower, y, z), terminator(some.regions[0].blocks[0])).place
        x, end = _loop(row, lower, upper, one)
        return self._row(extents, (x, y, z), end).place

    def _row(self, extents: Extents, ids: tuple[ir.Value, ir.Value, ir.Value], end: ir.Operation) -> RowLoops:
        place = ItemLoops.at(Emitter(end), extents, ids, end)
        return RowLoops(once=self._once, old=self._old, place=place)

    # ---- what a condition is made of ----

    def _terms(self, condition: ir.Value) -> list[_Term] | None:
        """Return what has to hold for ``condition`` to hold, each once."""
        found: list[_Term] = []
        pending, seen = [condition], set()
        while pending:
            part = pending.pop()
            if part in seen:
                continue
            seen.add(part)
            op = defining_op(part)
            if op is not None and op.name == "arith.andi" and not self._same_in_row(part):
                pending.extend(reversed(list(op.operands)))
                continue
            term = self._term(part)
            if term is None:
                return None
            found.append(term)
        return found

    def _term(self, condition: ir.Value) -> _Term | None:
        if self._same_in_row(condition):
            return _Term(bound=condition)
        if isinstance(condition.owner, ir.Block) or condition.owner.operation.name != "arith.cmpi":
            return None
        op = condition.owner.operation
        left, right = op.operands
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if self._same_in_row(left):
            left, right, predicate = right, left, _SWAPPED.get(predicate, -1)
        if predicate not in _SWAPPED or not self._grows(left) or not self._same_in_row(right):
            return None
        if isinstance(left.type, ir.IntegerType) and left.type.width < _LEAST_BITS:
            return None
        return _Term(bound=right, growing=left, predicate=predicate)

    def _same_in_row(self, value: ir.Value) -> bool:
        if value not in self._free:
            self._free[value] = self._uniform(value) or self._is_free(value)
        return self._free[value]

    def _is_free(self, value: ir.Value) -> bool:
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if op.name in ITEM_IDS:
            return is_id(op, "y") or is_id(op, "z")
        return is_pure(op) and all(map(self._same_in_row, op.operands))

    def _grows(self, value: ir.Value) -> bool:
        """Whether ``value`` is x, widened, narrowed and moved: at each step it grows by one, or overflows."""
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if is_id(op, "x"):
            return True
        if op.name in CASTS:
            return self._grows(op.operands[0])
        if op.name not in {"arith.addi", "arith.subi"}:
            return False
        left, right = op.operands
        if op.name == "arith.addi" and self._same_in_row(left):
            left, right = right, left
        return self._same_in_row(right) and self._grows(left)


def has_bounds_check(kernel: ir.Operation) -> bool:
    """Return whether a guard stands right in the body of a kernel without barriers."""
    entry = kernel.regions[0].blocks[0]
    if len(kernel.regions[0].blocks) != 1 or not any(op.name == "scf.if" for op in operations(entry)):
        return False
    checks = BoundsChecks(Interchange(entry, set(), Uniformity(entry, set())), {}, set())
    return any(map(checks.is_check, operations(entry)))


def body_of(check: ir.Operation) -> list[ir.Operation]:
    """Return the operations inside a guard."""
    block = check.regions[0].blocks[0]
    end = terminator(block)
    return [op for op in operations(block) if op != end]


def _crosses(ops: Sequence[ir.Operation], number: int, wanted: Sequence[ir.Value]) -> bool:
    """Whether an op from ``number`` on needs what an earlier one gives and cannot be computed again."""
    before = set(ops[:number])
    pending = [
        *wanted,
        *(operand for op in ops[number:] for inner in nested(op) for operand in inner.operands),
    ]
    seen: set[ir.Operation] = set()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block) or owner.operation not in before or owner.operation in seen:
            continue
        if not is_pure(owner.operation):
            return True
        seen.add(owner.operation)
        pending.extend(owner.operation.operands)
    return False


def _prefix(
    emit: Emitter, predicate: int, row: tuple[ir.Value, ir.Value, ir.Value], extents: Extents
) -> ir.Value:
    """Return how many work-items of a row hold ``<predicate> bound``; ``row`` is (first, last, bound)."""
    first, last, bound = row
    some = _index(emit, emit.binary("arith.subi", bound, first))
    if predicate in (Compare.SLE, Compare.ULE):
        some = _next(emit, some, extents.one)
    some = emit.select(emit.compare(predicate, first, bound), some, extents.zero)
    return emit.select(emit.compare(predicate, last, bound), extents.block_dim[0], some)


def _next(emit: Emitter, value: ir.Value, one: ir.Value) -> ir.Value:
    return emit.binary("arith.addi", value, one)


def _index(emit: Emitter, value: ir.Value) -> ir.Value:
    """Convert an unsigned integer to an index."""
    if isinstance(value.type, ir.IndexType):
        return value
    index = ir.IndexType.get()
    if value.type.width > 64:
        return emit.op("arith.index_cast", [value], [index]).results[0]
    return emit.op("arith.index_castui", [value], [index]).results[0]


def _loop(emit: Emitter, lower: ir.Value, upper: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Operation]:
    """Create a loop; return its counter and the end of its body."""
    body = for_loop(emit, lower, upper, step).regions[0].blocks[0]
    return body.arguments[0], terminator(body)
