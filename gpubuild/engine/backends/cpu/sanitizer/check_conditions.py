"""Check conditions: what a branch that is taken tells of the values it compares."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_numbers import same
from gpubuild.engine.backends.cpu.sanitizer.check_range import Facts, Range, constant, constant_of, is_index

if TYPE_CHECKING:
    from gpubuild.engine.backends.cpu.sanitizer.check_ranges import Ranges

_EQ, _NE, _SLT, _SLE, _SGT, _SGE, _ULT, _ULE, _UGT, _UGE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
_NEGATED = {
    _EQ: _NE,
    _NE: _EQ,
    _SLT: _SGE,
    _SLE: _SGT,
    _SGT: _SLE,
    _SGE: _SLT,
    _ULT: _UGE,
    _ULE: _UGT,
    _UGT: _ULE,
    _UGE: _ULT,
}
_SWAPPED = {_SGT: _SLT, _SGE: _SLE, _UGT: _ULT, _UGE: _ULE}


def assume(ranges: Ranges, condition: ir.Value, holds: bool, facts: Facts) -> None:
    """Note in ``facts`` what ``condition`` tells where it holds, or where it does not."""
    if isinstance(condition.owner, ir.Block):
        return
    op = condition.owner.operation
    if op.name == ("arith.andi" if holds else "arith.ori"):
        for part in op.operands:
            assume(ranges, part, holds, facts)
    elif op.name == "arith.xori" and constant_of(op.operands[1]) in (1, -1):
        assume(ranges, op.operands[0], not holds, facts)
    elif op.name == "arith.cmpi" and is_index(op.operands[0]):
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        a, b = op.operands
        if not holds:
            predicate = _NEGATED.get(predicate, -1)
        if predicate in _SWAPPED:
            predicate, a, b = _SWAPPED[predicate], b, a
        _compared(ranges, predicate, a, b, facts)


def _compared(ranges: Ranges, predicate: int, a: ir.Value, b: ir.Value, facts: Facts) -> None:
    left, right = ranges.of(a, facts), ranges.of(b, facts)
    found: list[tuple[ir.Value, Range]] = []
    n = ranges.numbers
    gap = 1 if predicate in (_SLT, _ULT) else 0
    if predicate == _EQ and left is not None and right is not None:
        given, bits = left.given + right.given, max(left.bits, right.bits)
        one = next((r for r in (right, left) if same(r.low, r.high)), None)
        low = one.low if one else n.most(left.low, right.low)
        high = one.high if one else n.least(left.high, right.high)
        found += ((value, Range(low=low, high=high, bits=bits, given=given)) for value in (a, b))
    elif predicate in (_ULT, _ULE) and right is not None:
        # As unsigned numbers: the right one not being negative, the left one is not, either.
        high = n.sub(right.high, gap)
        given = (*right.given, n.at_most(0, right.low))
        if left is None:
            found.append((a, Range(low=0, high=high, bits=right.bits + 1, given=given)))
        else:
            low, high = n.most(left.low, 0), n.least(left.high, high)
            bits = max(left.bits, right.bits + 1)
            found.append((a, Range(low=low, high=high, bits=bits, given=left.given + given)))
            if isinstance(left.low, int) and left.low >= 0:
                low = n.most(right.low, left.low + gap)
                more = (*left.given, *given)
                found.append((b, replace(right, low=low, bits=max(left.bits, right.bits) + 1, given=more)))
        facts.ordered[a, b] = (gap, given)
    elif predicate in (_SLT, _SLE) and left is not None and right is not None:
        given, bits = left.given + right.given, max(left.bits, right.bits) + 1
        high = n.least(left.high, n.sub(right.high, gap))
        low = n.most(right.low, n.add(left.low, gap))
        found.append((a, Range(low=left.low, high=high, bits=bits, given=given)))
        found.append((b, Range(low=low, high=right.high, bits=bits, given=given)))
        facts.ordered[a, b] = (gap, given)
    elif predicate == _NE and left is not None and isinstance(left.low, int) and left.low == constant_of(b):
        found.append((a, replace(left, low=left.low + 1, bits=left.bits + 1)))
    for value, range_ in found:
        _learn(ranges, value, range_, facts)
    facts.memo.clear()


def _learn(ranges: Ranges, value: ir.Value, range_: Range, facts: Facts) -> None:
    """Of a value, and of what it is a constant more than."""
    if constant_of(value) is not None:
        return
    facts.known[value] = range_
    if isinstance(value.owner, ir.Block) or value.owner.operation.name not in {
        "arith.addi",
        "arith.subi",
    }:
        return
    op = value.owner.operation
    more = constant_of(op.operands[1])
    old = ranges.of(op.operands[0], facts) if more is not None else None
    if more is None or old is None:
        return
    other = ranges.sum(range_, constant(-more if op.name == "arith.addi" else more))
    n = ranges.numbers
    low, high = n.most(old.low, other.low), n.least(old.high, other.high)
    given = old.given + other.given
    _learn(
        ranges, op.operands[0], Range(low=low, high=high, bits=max(old.bits, other.bits), given=given), facts
    )
