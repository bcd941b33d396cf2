"""Ranges of indices: the least and the largest value over all work-items of a launch.

A range holds for every work-item that reaches an access. It covers the ids of work-items and workgroups, loop
counters and values computed from them; conditions of enclosing branches narrow it. Its ends are computed when
a kernel starts, from the launch's sizes and the kernel's arguments, so that they are the same for the launch.

All arithmetic is in 64 bits. A range has a limit on the bits of its ends, and conditions on arguments under
which the limit holds. A value that could need more bits has no range.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import axis_of
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op

Number: TypeAlias = "int | ir.Value"
Truth: TypeAlias = "bool | ir.Value"

_ARGUMENT_BITS = 30  # larger arguments and sizes are left to the check of each access
_MOST_BITS = 61
_SHIFT_LIMIT = 30


class Numbers:
    """Arithmetic on constants, done now, and on values, emitted where ``emit`` points.

    Nothing here may overflow: callers know how large numbers can be.
    """

    def __init__(self, emit: Emitter) -> None:
        self._emit = emit

    def add(self, a: Number, b: Number) -> Number:
        """Return ``a + b``."""
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self._binary(operator.add, "arith.addi", a, b)

    def mul(self, a: Number, b: Number) -> Number:
        """Return ``a * b``."""
        if a == 1 or b == 1:
            return b if a == 1 else a
        return 0 if a == 0 or b == 0 else self._binary(operator.mul, "arith.muli", a, b)

    def divide(self, a: Number, b: Number) -> Number:
        """Return ``a / b``, rounded down; ``a`` must not be negative, and ``b`` must be positive."""
        return self._binary(operator.floordiv, "arith.divui", a, b)

    def least(self, a: Number, b: Number) -> Number:
        """Return the smaller one."""
        return a if a == b else self._binary(min, "arith.minsi", a, b)

    def most(self, a: Number, b: Number) -> Number:
        """Return the larger one."""
        return a if a == b else self._binary(max, "arith.maxsi", a, b)

    def less(self, a: Number, b: Number) -> Truth:
        """Whether ``a < b``."""
        return self._compare(operator.lt, Compare.SLT, a, b)

    def at_most(self, a: Number, b: Number) -> Truth:
        """Whether ``a <= b``."""
        return self._compare(operator.le, Compare.SLE, a, b)

    def equal(self, a: Number, b: Number) -> Truth:
        """Whether ``a == b``."""
        return self._compare(operator.eq, Compare.EQ, a, b)

    def _value(self, number: Number) -> ir.Value:
        return self._emit.constant(number) if isinstance(number, int) else number

    def _binary(self, compute: Callable[[int, int], int], name: str, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        return self._emit.binary(name, self._value(a), self._value(b))

    def _compare(self, compute: Callable[[int, int], bool], code: Compare, a: Number, b: Number) -> Truth:
        if isinstance(a, int) and isinstance(b, int):
            return compute(a, b)
        return self._emit.compare(code, self._value(a), self._value(b))


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``low`` to ``high``, both included, if all of ``given`` holds; both below ``2**bits`` in size."""

    low: Number
    high: Number
    bits: int
    given: tuple[Truth, ...] = ()

    @property
    def is_single(self) -> bool:
        """Whether it is known now to be one number."""
        return bool(self.low == self.high)

    @property
    def is_natural(self) -> bool:
        """Whether it is known now not to be negative."""
        return isinstance(self.low, int) and self.low >= 0


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is known of values at an access, from the conditions around it.

    ``ordered`` maps pairs, the second of which is larger than the first by at least a number, to that number
    and the conditions for it.
    """

    known: dict[ir.Value, Range] = field(default_factory=dict)
    ordered: dict[tuple[ir.Value, ir.Value], tuple[int, tuple[Truth, ...]]] = field(default_factory=dict)
    memo: dict[ir.Value, Range | None] = field(default_factory=dict)


def constant(value: int) -> Range:
    """Return a range of one number."""
    return Range(low=value, high=value, bits=value.bit_length())


def is_index(value: ir.Value) -> bool:
    """Return whether a value is of type index."""
    return isinstance(value.type, ir.IndexType)


_OPPOSITES = (
    (Compare.EQ, Compare.NE),
    (Compare.SLT, Compare.SGE),
    (Compare.SLE, Compare.SGT),
    (Compare.ULT, Compare.UGE),
    (Compare.ULE, Compare.UGT),
)
_NEGATED = dict(_OPPOSITES) | {b: a for a, b in _OPPOSITES}
_SWAPPED = {
    Compare.SGT: Compare.SLT,
    Compare.SGE: Compare.SLE,
    Compare.UGT: Compare.ULT,
    Compare.UGE: Compare.ULE,
}


class Ranges:
    """Ranges of the values of one kernel, computed where ``emit`` points in its entry."""

    def __init__(self, kernel: ir.Operation, emit: Emitter) -> None:
        self.numbers = Numbers(emit)
        self._emit = emit
        self._entry = kernel.regions[0].blocks[0]
        self._leaves: dict[tuple[object, ...], Range] = {}
        self._facts: dict[tuple[tuple[ir.Operation, int], ...], Facts] = {}

    def facts_at(self, op: ir.Operation) -> Facts:
        """Return what follows from the conditions around ``op``."""
        around: list[tuple[ir.Operation, int]] = []
        block = op.operation.block
        while block != self._entry:
            owner = block.owner.operation
            if owner.name == "scf.if":
                around.append((owner, 0 if owner.regions[0].blocks[0] == block else 1))
            block = owner.block
        key = tuple(reversed(around))
        if key not in self._facts:
            facts = Facts()
            for condition, branch in key:
                self._assume(condition.operands[0], branch == 0, facts)
            self._facts[key] = facts
        return self._facts[key]

    def of(self, value: ir.Value, facts: Facts) -> Range | None:
        """Return the range of an index, if it has one."""
        if value in facts.known:
            return facts.known[value]
        if value not in facts.memo:
            facts.memo[value] = None  # a value that depends on itself has no range
            facts.memo[value] = self._compute(value, facts)
        return facts.memo[value]

    def size(self, memory: ir.Value, number: int) -> Range | None:
        """Return the range of one dimension's size."""
        shaped = ir.MemRefType(memory.type)
        if not 0 <= number < shaped.rank:
            return None
        if not shaped.is_dynamic_dim(number):
            return constant(shaped.get_dim_size(number))
        if not self.is_argument(memory):
            return None
        key = ("dim", memory, number)
        if key not in self._leaves:
            operands = [memory, self._emit.constant(number)]
            value = self._emit.op("memref.dim", operands, [ir.IndexType.get()]).results[0]
            self._leaves[key] = self._leaf(value, least=0)
        return self._leaves[key]

    def is_argument(self, value: ir.Value) -> bool:
        """Return whether ``value`` is an argument of the kernel."""
        return isinstance(value.owner, ir.Block) and value.owner == self._entry

    def hardware(self, name: str, axis: str) -> Range:
        """Return the range of ``gpu.block_dim`` or ``gpu.grid_dim``, a single number."""
        key = (name, axis)
        if key not in self._leaves:
            size = self._emit.dimension(name, axis)
            self._leaves[key] = Range(low=size, high=size, bits=11 if name == "block_dim" else 32)
        return self._leaves[key]

    def narrow(self, range_: Range) -> Range:
        """Return the range with as few bits as an argument, which becomes one more condition."""
        if range_.bits <= _ARGUMENT_BITS:
            return range_
        limit = 1 << _ARGUMENT_BITS
        fits = (self.numbers.less(-limit, range_.low), self.numbers.less(range_.high, limit))
        return replace(range_, bits=_ARGUMENT_BITS, given=(*range_.given, *fits))

    def sum(self, a: Range, b: Range) -> Range:
        """Return the range of all sums of numbers of the two."""
        if max(a.bits, b.bits) >= _MOST_BITS:
            a, b = self.narrow(a), self.narrow(b)
        n = self.numbers
        low, high = n.add(a.low, b.low), n.add(a.high, b.high)
        return Range(low=low, high=high, bits=max(a.bits, b.bits) + 1, given=a.given + b.given)

    def difference(self, a: Range, b: Range) -> Range:
        """Return the range of all differences of numbers of the two."""
        return self.sum(a, self.product(b, constant(-1)))

    def product(self, a: Range, b: Range) -> Range:
        """Return the range of all products of numbers of the two."""
        if a.bits + b.bits > _MOST_BITS:
            a, b = self.narrow(a), self.narrow(b)
        n = self.numbers
        given, bits = a.given + b.given, a.bits + b.bits
        for one, other in ((a, b), (b, a)):
            if isinstance(one.low, int) and one.is_single:
                ends = [n.mul(one.low, other.low), n.mul(one.low, other.high)]
                low, high = ends if one.low >= 0 else reversed(ends)
                return Range(low=low, high=high, bits=bits, given=given)
        if a.is_natural and b.is_natural:
            return Range(low=n.mul(a.low, b.low), high=n.mul(a.high, b.high), bits=bits, given=given)
        corners = [n.mul(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        low = high = corners[0]
        for corner in corners[1:]:
            low, high = n.least(low, corner), n.most(high, corner)
        return Range(low=low, high=high, bits=bits, given=given)

    # ---- conditions ----

    def _assume(self, condition: ir.Value, holds: bool, facts: Facts) -> None:
        """Add what follows from ``condition`` where it holds, or where it does not."""
        op = defining_op(condition)
        if op is None:
            return
        if op.name == ("arith.andi" if holds else "arith.ori"):
            for part in op.operands:
                self._assume(part, holds, facts)
        elif op.name == "arith.xori" and constant_integer(op.operands[1]) in (1, -1):
            self._assume(op.operands[0], not holds, facts)
        elif op.name == "arith.cmpi" and is_index(op.operands[0]):
            code = Compare(ir.IntegerAttr(op.attributes["predicate"]).value)
            a, b = op.operands
            if not holds:
                code = _NEGATED[code]
            if code in _SWAPPED:
                code, a, b = _SWAPPED[code], b, a
            self._compared(code, a, b, facts)
            facts.memo.clear()

    def _compared(self, code: Compare, a: ir.Value, b: ir.Value, facts: Facts) -> None:
        left, right = self.of(a, facts), self.of(b, facts)
        n = self.numbers
        if code == Compare.EQ:
            single = next((r for r in (right, left) if r is not None and r.is_single), None)
            if single is not None:
                self._learn(a, single, facts)
                self._learn(b, single, facts)
            return
        if code == Compare.NE:
            if left is not None and isinstance(left.low, int) and left.low == constant_integer(b):
                self._learn(a, replace(left, low=left.low + 1, bits=left.bits + 1), facts)
            return
        unsigned = code in (Compare.ULT, Compare.ULE)
        gap = 1 if code in (Compare.SLT, Compare.ULT) else 0
        if right is None:
            return
        most, given = n.add(right.high, -gap), right.given
        if unsigned:  # if the right number is not negative, the left one is not, either
            given = (*given, n.at_most(0, right.low))
            left = left or Range(low=0, high=most, bits=right.bits)
            left = replace(left, low=n.most(left.low, 0))
        if left is None:
            return
        facts.ordered[a, b] = (gap, given)
        given, bits = left.given + given, max(left.bits, right.bits) + 1
        self._learn(a, Range(low=left.low, high=n.least(left.high, most), bits=bits, given=given), facts)
        if not unsigned or left.is_natural:
            low = n.most(right.low, n.add(left.low, gap))
            self._learn(b, Range(low=low, high=right.high, bits=bits, given=given), facts)

    def _learn(self, value: ir.Value, range_: Range, facts: Facts) -> None:
        """Add the range of a value, and of the value that it is a constant more than."""
        if constant_integer(value) is not None:
            return
        facts.known[value] = range_
        op = defining_op(value)
        if op is None or op.name not in {"arith.addi", "arith.subi"}:
            return
        more = constant_integer(op.operands[1])
        old = self.of(op.operands[0], facts)
        if more is None or old is None:
            return
        other = self.sum(range_, constant(-more if op.name == "arith.addi" else more))
        low, high = self.numbers.most(old.low, other.low), self.numbers.least(old.high, other.high)
        given, bits = old.given + other.given, max(old.bits, other.bits)
        self._learn(op.operands[0], Range(low=low, high=high, bits=bits, given=given), facts)

    # ---- values ----

    def _compute(self, value: ir.Value, facts: Facts) -> Range | None:
        if not is_index(value):
            return None
        if (number := constant_integer(value)) is not None:
            return constant(number)
        op = defining_op(value)
        if op is not None:
            rule = _RULES.get(op.name)
            return rule(self, op, facts) if rule else None
        if self.is_argument(value):
            return self._argument(value)
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or "unsignedCmp" in loop.attributes:
            return None
        number = list(value.owner.arguments).index(value)
        return self._carried(loop, value, number - 1, facts) if number else self._counter(loop, facts)

    def _counter(self, loop: ir.Operation, facts: Facts) -> Range | None:
        """Return the range of a loop's counter, to its last value if all start and step alike."""
        lower, upper, step = (self.of(v, facts) for v in list(loop.operands)[:3])
        if lower is None or upper is None or step is None:
            return None  # with an unknown step the counter could overflow
        n = self.numbers
        last = self.sum(upper, constant(-1))
        positive = (*step.given, n.less(0, step.low))
        if not (lower.is_single and step.is_single):
            given, bits = lower.given + last.given + positive, max(lower.bits, last.bits)
            return Range(low=lower.low, high=last.high, bits=bits, given=given)
        span = self.difference(last, lower)
        divisor = n.most(step.low, 1)
        whole = n.mul(n.divide(n.most(span.high, 0), divisor), divisor)
        high = n.add(lower.low, whole)
        return Range(low=lower.low, high=high, bits=span.bits + 1, given=span.given + positive)

    def _carried(self, loop: ir.Operation, value: ir.Value, number: int, facts: Facts) -> Range | None:
        """Return the range of a number that a loop halves, or the like: from zero to its first value."""
        body = loop.regions[0].blocks[0]
        op = defining_op(body.operations[len(body.operations) - 1].operation.operands[number])
        if op is None or op.name not in {"arith.shrui", "arith.divui"} or op.operands[0] != value:
            return None
        first = self.of(loop.operands[3 + number], facts)
        if first is None or not constant_integer(op.operands[1]):
            return None
        return replace(first, low=0, given=(*first.given, self.numbers.at_most(0, first.low)))

    def _leaf(self, value: ir.Value, least: int) -> Range:
        """Return the range of a value that is the same for the whole launch."""
        limit = 1 << _ARGUMENT_BITS
        given = (self.numbers.less(least - 1, value), self.numbers.less(value, limit))
        return Range(low=value, high=value, bits=_ARGUMENT_BITS, given=given)

    def _argument(self, argument: ir.Value, cast: str = "") -> Range:
        """Return the range of an argument of type index, or of one that ``cast`` converts to an index."""
        key = (cast, argument)
        if key not in self._leaves:
            index = ir.IndexType.get()
            value = self._emit.op(cast, [argument], [index]).results[0] if cast else argument
            self._leaves[key] = self._leaf(value, least=1 - (1 << _ARGUMENT_BITS))
        return self._leaves[key]

    def _cast(self, op: ir.Operation, facts: Facts) -> Range | None:
        source = op.operands[0]
        if (known := constant_integer(source)) is not None:
            return constant(known)
        return self._argument(source, op.name) if self.is_argument(source) else None

    def _hardware_value(self, op: ir.Operation, facts: Facts) -> Range | None:
        name, axis = op.name.removeprefix("gpu."), axis_of(op)
        if name in {"block_dim", "grid_dim"}:
            return self.hardware(name, axis)
        count = self.hardware("block_dim" if name == "thread_id" else "grid_dim", axis)
        if name == "global_id":
            items = self.hardware("block_dim", axis)
            high, bits = self.numbers.mul(items.high, count.high), items.bits + count.bits
            count = Range(low=0, high=high, bits=bits)
        return Range(low=0, high=self.numbers.add(count.high, -1), bits=count.bits)

    def _dim(self, op: ir.Operation, facts: Facts) -> Range | None:
        memory, number = op.operands[0], constant_integer(op.operands[1])
        if number is None or not isinstance(memory.type, ir.MemRefType):
            return None
        return self.size(memory, number)

    def _pair(self, op: ir.Operation, facts: Facts) -> Range | None:
        """Return the range of a sum, difference, product or choice of the last two operands."""
        a, b = (self.of(v, facts) for v in list(op.operands)[-2:])
        if a is None or b is None:
            return None
        if op.name == "arith.addi":
            return self.sum(a, b)
        if op.name == "arith.muli":
            return self.product(a, b)
        n = self.numbers
        if op.name == "arith.subi":
            found = self.difference(a, b)
            ordered = facts.ordered.get((op.operands[1], op.operands[0]))
            if ordered is None:
                return found
            return replace(found, low=n.most(found.low, ordered[0]), given=found.given + ordered[1])
        low = n.most if op.name == "arith.maxsi" else n.least
        high = n.least if op.name == "arith.minsi" else n.most
        given, bits = a.given + b.given, max(a.bits, b.bits)
        return Range(low=low(a.low, b.low), high=high(a.high, b.high), bits=bits, given=given)

    def _by_constant(self, op: ir.Operation, facts: Facts) -> Range | None:
        """Return the range of a quotient, remainder, shift or mask of a number and a constant."""
        by = constant_integer(op.operands[1])
        if by is None or by < 0:
            return None
        if op.name == "arith.andi":
            return Range(low=0, high=by, bits=by.bit_length())
        if op.name in {"arith.shli", "arith.shrui"}:
            by = 1 << by if by < _SHIFT_LIMIT else 0
        if by == 0:
            return None
        if op.name == "arith.remui":
            return Range(low=0, high=by - 1, bits=by.bit_length())
        a = self.of(op.operands[0], facts)
        if a is None:
            return None
        if op.name == "arith.shli":
            return self.product(a, constant(by))
        n = self.numbers
        given = (*a.given, n.at_most(0, a.low))
        return replace(a, low=n.divide(a.low, by), high=n.divide(a.high, by), given=given)


_RULES: dict[str, Callable[[Ranges, ir.Operation, Facts], Range | None]] = {
    "gpu.thread_id": Ranges._hardware_value,
    "gpu.block_id": Ranges._hardware_value,
    "gpu.global_id": Ranges._hardware_value,
    "gpu.block_dim": Ranges._hardware_value,
    "gpu.grid_dim": Ranges._hardware_value,
    "memref.dim": Ranges._dim,
    "arith.index_cast": Ranges._cast,
    "arith.index_castui": Ranges._cast,
    "arith.addi": Ranges._pair,
    "arith.subi": Ranges._pair,
    "arith.muli": Ranges._pair,
    "arith.select": Ranges._pair,
    "arith.minsi": Ranges._pair,
    "arith.maxsi": Ranges._pair,
    "arith.divui": Ranges._by_constant,
    "arith.shrui": Ranges._by_constant,
    "arith.remui": Ranges._by_constant,
    "arith.andi": Ranges._by_constant,
    "arith.shli": Ranges._by_constant,
}
