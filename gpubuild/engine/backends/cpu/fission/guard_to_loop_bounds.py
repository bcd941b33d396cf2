"""Guards such as ``if x < n`` become the bounds of the loop over work-items.

A condition inside a loop over work-items costs masked loads and stores, or keeps LLVM from vectorising.
Where the compared value grows by one from a work-item of a row to the next, those that pass are neighbours:
the loop runs from the first of them to the last without a condition. Where an integer overflows in a row,
the loop tests its work-items one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.item_code import copy_with
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, ItemLoops, if_then, open_loop
from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS, Interchange
from gpubuild.engine.backends.cpu.fission.uniformity import (
    ITEM_IDS,
    Uniformity,
    is_id,
    is_pure,
    nested,
    operations,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import defining_op
from gpubuild.support.frozen import frozen

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


@frozen
class _Term:
    """``growing <predicate> bound``; without ``growing``, ``bound`` is a condition that a row shares."""

    bound: ir.Value
    growing: ir.Value | None = None
    predicate: int = Compare.EQ


class BoundsChecks:
    """Finds the guards among the ``scf.if`` of a function, and builds loops that run their bodies."""

    def __init__(self, interchange: Interchange, once: dict[ir.Value, ir.Value], old: set[ir.Value]) -> None:
        self._interchange = interchange
        self._once = once
        self._old = old
        self._off = False

    def switch_off(self) -> None:
        """Treat no ``scf.if`` as a guard from now on."""
        self._off = True

    def segments(self, ops: Sequence[ir.Operation], wanted: Sequence[ir.Value]) -> list[list[ir.Operation]]:
        """Cut code between barriers before and after each check, where no value crosses.

        Work-items may run in any order there. Pure values are computed on both sides; ``wanted`` values are
        needed at the end.
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
        """Return whether :meth:`open` can create loops for ``op``."""
        if self._off or op.name != "scf.if" or len(op.results) or len(op.regions[1].blocks) or needs_item(op):
            return False
        terms = self._terms(op.operands[0])
        return terms is not None and any(term.growing is not None for term in terms)

    def open(self, op: ir.Operation, emit: Emitter, extents: Extents) -> ItemLoops:
        """Create empty loops over the work-items for which the condition of ``op`` holds."""
        terms = self._terms(op.operands[0]) or []
        zero, one = extents.zero, extents.one
        width = extents.block_dim[0]
        z, end = open_loop(emit, zero, extents.block_dim[2], one)
        y, end = open_loop(Emitter(end), zero, extents.block_dim[1], one)
        row = Emitter(end)
        first = self._values(ItemLoops.at(extents, (zero, y, z), end))
        last = self._values(ItemLoops.at(extents, (row.binary("arith.subi", width, one), y, z), end))
        lower, upper, ordered = zero, width, None
        for term in terms:
            if term.growing is None:
                upper = row.select(first(term.bound, row), upper, zero)
                continue
            start, bound = first(term.growing, row), first(term.bound, row)
            stop = last(term.growing, row)
            distance = _index(row, row.binary("arith.subi", stop, start))
            grows = row.compare(Compare.EQ, _next(row, distance, one), width)
            if term.predicate == Compare.EQ:
                x = _index(row, row.binary("arith.subi", bound, start))
                in_row = row.compare(Compare.ULT, x, width)
                lower = row.binary("arith.maxsi", lower, row.select(in_row, x, width))
                upper = row.binary("arith.minsi", upper, row.select(in_row, _next(row, x, one), zero))
                if not self._interchange.may_jump(term.growing):
                    continue  # no other work-item of the row has the same
            else:
                below = _INVERSE.get(term.predicate, term.predicate)
                count = count_below(row, below, (start, stop, bound), width)
                if term.predicate in _INVERSE:
                    lower = row.binary("arith.maxsi", lower, count)
                else:
                    upper = row.binary("arith.minsi", upper, count)
                grows = row.binary("arith.andi", row.compare(_NOT_ABOVE[below], start, stop), grows)
            ordered = grows if ordered is None else row.binary("arith.andi", ordered, grows)
        if ordered is not None:
            at, end = open_loop(row, zero, row.select(ordered, one, width), one)
            row = Emitter(end)
            mine = self._values(ItemLoops.at(extents, (at, y, z), end))(op.operands[0], row)
            lower = row.select(ordered, lower, at)
            upper = row.select(ordered, upper, row.select(mine, _next(row, at, one), at))
        if any(term.growing is not None and term.predicate == Compare.EQ for term in terms):
            end = if_then(row, row.compare(Compare.SLT, lower, upper))
            return ItemLoops.at(extents, (lower, y, z), end)
        x, end = open_loop(row, lower, upper, one)
        return ItemLoops.at(extents, (x, y, z), end)

    def _values(self, loops: ItemLoops) -> Callable[[ir.Value, Emitter], ir.Value]:
        """Return a function that computes a value for the loops' work-item from ids and uniform values."""
        known: dict[ir.Value, ir.Value] = {}

        def computed(value: ir.Value, emit: Emitter) -> ir.Value:
            if value not in self._old:
                return value
            if value in self._once:
                return self._once[value]
            if value not in known:
                op = value.owner.operation
                if op.name in ITEM_IDS:
                    known[value] = loops.identity(op, emit)
                else:
                    new = copy_with(op, [computed(operand, emit) for operand in op.operands], emit)
                    known.update(zip(op.results, new.results, strict=True))
            return known[value]

        return computed

    # ---- the terms of a condition ----

    def _terms(self, condition: ir.Value) -> list[_Term] | None:
        """Return the terms that must all hold for ``condition`` to hold; ``None`` if one is not known."""
        found: list[_Term] = []
        pending, seen = [condition], set()
        while pending:
            part = pending.pop()
            if part in seen:
                continue
            seen.add(part)
            op = defining_op(part)
            if op is not None and op.name == "arith.andi" and not self._interchange.same_in_row(part):
                pending.extend(reversed(list(op.operands)))
                continue
            term = self._term(part)
            if term is None:
                return None
            found.append(term)
        return found

    def _term(self, condition: ir.Value) -> _Term | None:
        if self._interchange.same_in_row(condition):
            return _Term(bound=condition)
        op = defining_op(condition)
        if op is None or op.name != "arith.cmpi":
            return None
        left, right = op.operands
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        if self._interchange.same_in_row(left):
            left, right, predicate = right, left, _SWAPPED.get(predicate, -1)
        if predicate not in _SWAPPED or not self._grows(left) or not self._interchange.same_in_row(right):
            return None
        if isinstance(left.type, ir.IntegerType) and left.type.width < _LEAST_BITS:
            return None
        return _Term(bound=right, growing=left, predicate=predicate)

    def _grows(self, value: ir.Value) -> bool:
        """Return whether ``value`` is a sum with x, in any type: it grows by one in a row, or overflows."""
        op = defining_op(value)
        if op is None:
            return False
        if is_id(op, "x"):
            return True
        if op.name in CASTS:
            return self._grows(op.operands[0])
        if op.name not in {"arith.addi", "arith.subi"}:
            return False
        left, right = op.operands
        if op.name == "arith.addi" and self._interchange.same_in_row(left):
            left, right = right, left
        return self._interchange.same_in_row(right) and self._grows(left)


def has_bounds_check(kernel: ir.Operation) -> bool:
    """Return whether a kernel without barriers has a guard outside other control flow."""
    entry = kernel.regions[0].blocks[0]
    if len(kernel.regions[0].blocks) != 1 or not any(op.name == "scf.if" for op in operations(entry)):
        return False
    checks = BoundsChecks(Interchange(entry, set(), Uniformity(entry, set())), {}, set())
    return any(map(checks.is_check, operations(entry)))


def _crosses(ops: Sequence[ir.Operation], number: int, wanted: Sequence[ir.Value]) -> bool:
    """Return whether an op from ``number`` on needs a result of an earlier op that is not pure."""
    before = set(ops[:number])
    pending = [
        *wanted,
        *(operand for op in ops[number:] for inner in nested(op) for operand in inner.operands),
    ]
    seen: set[ir.Operation] = set()
    while pending:
        op = defining_op(pending.pop())
        if op is None or op not in before or op in seen:
            continue
        if not is_pure(op):
            return True
        seen.add(op)
        pending.extend(op.operands)
    return False


def count_below(
    emit: Emitter, predicate: int, row: tuple[ir.Value, ir.Value, ir.Value], size: ir.Value
) -> ir.Value:
    """Return how many of the ``size`` work-items of a row are below ``bound``; it is (first, last, bound)."""
    first, last, bound = row
    some = _index(emit, emit.binary("arith.subi", bound, first))
    if predicate in (Compare.SLE, Compare.ULE):
        some = _next(emit, some, emit.constant(1))
    some = emit.select(emit.compare(predicate, first, bound), some, emit.constant(0))
    return emit.select(emit.compare(predicate, last, bound), size, some)


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
