"""Ranges of indices: the least and the largest value over all work-items of a launch.

A range holds for every work-item that reaches an access. It covers the ids of work-items and workgroups,
the counters of loops, and what is computed from them; conditions of enclosing branches narrow it. Its ends
are computed when a kernel starts, from the launch's sizes and the kernel's arguments, so that they are the
same for the whole launch.

All arithmetic is in 64 bits. A range has a limit on the bits of its ends, and the conditions on arguments
under which that limit holds. What could take more bits has no range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer

Number: TypeAlias = "int | ir.Value"
Truth: TypeAlias = "bool | ir.Value"


class Numbers:
    """Integers and truths; what can be computed now is, the rest is emitted where ``emit`` points.

    Nothing here may overflow: whoever asks knows how large numbers can be.
    """

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit

    def value(self, number: Number) -> ir.Value:
        """Return ``number`` as a value of type index."""
        return self.emit.constant(number) if isinstance(number, int) else number

    def add(self, a: Number, b: Number) -> Number:
        """Return ``a + b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self._binary("arith.addi", a, b)

    def sub(self, a: Number, b: Number) -> Number:
        """Return ``a - b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.subi", a, b)

    def mul(self, a: Number, b: Number) -> Number:
        """Return ``a * b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int) and a in (0, 1):
            return b if a else 0
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return self._binary("arith.muli", a, b)

    def divide(self, a: Number, b: Number) -> Number:
        """Return ``a / b``, rounded down, of what is not negative by what is positive."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if isinstance(b, int) and b == 1 else self._binary("arith.divui", a, b)

    def least(self, a: Number, b: Number) -> Number:
        """Return the smaller one."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return a if same(a, b) else self._binary("arith.minsi", a, b)

    def most(self, a: Number, b: Number) -> Number:
        """Return the larger one."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return a if same(a, b) else self._binary("arith.maxsi", a, b)

    def less(self, a: Number, b: Number) -> Truth:
        """Return whether ``a < b``."""
        return a < b if isinstance(a, int) and isinstance(b, int) else self._compare(Compare.SLT, a, b)

    def at_most(self, a: Number, b: Number) -> Truth:
        """Return whether ``a <= b``."""
        return a <= b if isinstance(a, int) and isinstance(b, int) else self._compare(Compare.SLE, a, b)

    def equal(self, a: Number, b: Number) -> Truth:
        """Return whether ``a == b``."""
        return a == b if isinstance(a, int) and isinstance(b, int) else self._compare(Compare.EQ, a, b)

    def either(self, a: Truth, b: Truth) -> Truth:
        """Return whether one of the two holds."""
        if isinstance(a, bool):
            return True if a else b
        if isinstance(b, bool):
            return True if b else a
        return self.emit.binary("arith.ori", a, b)

    def _binary(self, name: str, a: Number, b: Number) -> ir.Value:
        return self.emit.binary(name, self.value(a), self.value(b))

    def _compare(self, predicate: int, a: Number, b: Number) -> ir.Value:
        return self.emit.compare(predicate, self.value(a), self.value(b))


def same(a: Number, b: Number) -> bool:
    """Return whether two numbers are known to be the same now."""
    return isinstance(a, int) == isinstance(b, int) and a == b


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``low`` to ``high``, both included, if all of ``given`` holds; both below ``2**bits`` in size."""

    low: Number
    high: Number
    bits: int
    given: tuple[Truth, ...] = ()


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is known of values where an access is, from the conditions around it.

    ``ordered`` are pairs of which the second is at least so much more than the first, if all of what comes
    with that holds.
    """

    known: dict[ir.Value, Range] = field(default_factory=dict)
    ordered: dict[tuple[ir.Value, ir.Value], tuple[int, tuple[Truth, ...]]] = field(default_factory=dict)
    memo: dict[ir.Value, Range | None] = field(default_factory=dict)


def constant(value: int) -> Range:
    """Return a range of one number."""
    return Range(low=value, high=value, bits=value.bit_length())


def axis_of(op: ir.Operation) -> str:
    """Return ``x``, ``y`` or ``z`` of an op that names a dimension."""
    return str(op.attributes["dimension"]).removeprefix("#gpu<dim ")[0]


def is_index(value: ir.Value) -> bool:
    """Return whether it is of type index."""
    return isinstance(value.type, ir.IndexType)


_NEGATED = {
    Compare.EQ: Compare.NE,
    Compare.NE: Compare.EQ,
    Compare.SLT: Compare.SGE,
    Compare.SLE: Compare.SGT,
    Compare.SGT: Compare.SLE,
    Compare.SGE: Compare.SLT,
    Compare.ULT: Compare.UGE,
    Compare.ULE: Compare.UGT,
    Compare.UGT: Compare.ULE,
    Compare.UGE: Compare.ULT,
}
_SWAPPED = {
    Compare.SGT: Compare.SLT,
    Compare.SGE: Compare.SLE,
    Compare.UGT: Compare.ULT,
    Compare.UGE: Compare.ULE,
}


def assume(ranges: Ranges, condition: ir.Value, holds: bool, facts: Facts) -> None:
    """Note in ``facts`` what ``condition`` tells where it holds, or where it does not."""
    if isinstance(condition.owner, ir.Block):
        return
    op = condition.owner.operation
    if op.name == ("arith.andi" if holds else "arith.ori"):
        for part in op.operands:
            assume(ranges, part, holds, facts)
    elif op.name == "arith.xori" and constant_integer(op.operands[1]) in (1, -1):
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
    gap = 1 if predicate in (Compare.SLT, Compare.ULT) else 0
    if predicate == Compare.EQ and left is not None and right is not None:
        given, bits = left.given + right.given, max(left.bits, right.bits)
        one = next((r for r in (right, left) if same(r.low, r.high)), None)
        low = one.low if one else n.most(left.low, right.low)
        high = one.high if one else n.least(left.high, right.high)
        found += ((value, Range(low=low, high=high, bits=bits, given=given)) for value in (a, b))
    elif predicate in (Compare.ULT, Compare.ULE) and right is not None:
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
    elif predicate in (Compare.SLT, Compare.SLE) and left is not None and right is not None:
        given, bits = left.given + right.given, max(left.bits, right.bits) + 1
        high = n.least(left.high, n.sub(right.high, gap))
        low = n.most(right.low, n.add(left.low, gap))
        found.append((a, Range(low=left.low, high=high, bits=bits, given=given)))
        found.append((b, Range(low=low, high=right.high, bits=bits, given=given)))
        facts.ordered[a, b] = (gap, given)
    elif (
        predicate == Compare.NE
        and left is not None
        and isinstance(left.low, int)
        and left.low == constant_integer(b)
    ):
        found.append((a, replace(left, low=left.low + 1, bits=left.bits + 1)))
    for value, range_ in found:
        _learn(ranges, value, range_, facts)
    facts.memo.clear()


def _learn(ranges: Ranges, value: ir.Value, range_: Range, facts: Facts) -> None:
    """Of a value, and of what it is a constant more than."""
    if constant_integer(value) is not None:
        return
    facts.known[value] = range_
    if isinstance(value.owner, ir.Block) or value.owner.operation.name not in {
        "arith.addi",
        "arith.subi",
    }:
        return
    op = value.owner.operation
    more = constant_integer(op.operands[1])
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


_ARGUMENT_BITS = 30  # arguments and sizes beyond are left to the check of each access
_MOST_BITS = 61
_SHIFT_LIMIT = 30


class Ranges:
    """Ranges of the values of one kernel, computed at the place of ``emit`` in its entry."""

    def __init__(self, kernel: ir.Operation, emit: Emitter) -> None:
        self.numbers = Numbers(emit)
        self._emit = emit
        self._entry = kernel.regions[0].blocks[0]
        self._leaves: dict[tuple[object, ...], Range] = {}
        self._facts: dict[tuple[tuple[ir.Operation, int], ...], Facts] = {}

    def facts_at(self, op: ir.Operation) -> Facts:
        """Return what the conditions around ``op`` say."""
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
                assume(self, condition.operands[0], branch == 0, facts)
            self._facts[key] = facts
        return self._facts[key]

    def of(self, value: ir.Value, facts: Facts) -> Range | None:
        """Return the range of an index; ``None`` when nothing is known."""
        if value in facts.known:
            return facts.known[value]
        if value not in facts.memo:
            facts.memo[value] = None  # a value that depends on itself has no range
            facts.memo[value] = self._compute(value, facts)
        return facts.memo[value]

    def size(self, memory: ir.Value, number: int) -> Range | None:
        """Return the range of one dimension's size."""
        shaped = ir.MemRefType(memory.type)
        if not shaped.is_dynamic_dim(number):
            return constant(shaped.get_dim_size(number))
        if self.is_argument(memory):
            return self._leaf(("dim", memory, number), lambda: self._dimension(memory, number), least=0)
        return None

    def is_argument(self, value: ir.Value) -> bool:
        """Return whether ``value`` is one of the kernel's."""
        return isinstance(value.owner, ir.Block) and value.owner == self._entry

    def hardware(self, name: str, axis: str) -> Range:
        """Return the range of ``gpu.block_dim`` and ``gpu.grid_dim``, each a single number."""
        bits = 11 if name == "block_dim" else 32
        key = (name, axis)
        if key not in self._leaves:
            size = self._emit.dimension(name, axis)
            self._leaves[key] = Range(low=size, high=size, bits=bits)
        return self._leaves[key]

    def argument(self, number: int, cast: str = "argument") -> Range:
        """The range of an argument of type index, or of one that ``cast`` makes an index: a single number."""
        argument = self._entry.arguments[number]
        if cast == "argument":
            return self._leaf((cast, argument), lambda: argument)
        index = ir.IndexType.get()
        return self._leaf((cast, argument), lambda: self._emit.op(cast, [argument], [index]).results[0])

    def argument_size(self, number: int, dimension: int) -> Range | None:
        """Return the range of the size of one dimension of an argument: a single number."""
        return self.size(self._entry.arguments[number], dimension)

    def narrow(self, range_: Range) -> Range:
        """Return the same with as few bits as an argument, which becomes one more thing that must be true."""
        if range_.bits <= _ARGUMENT_BITS:
            return range_
        limit = 1 << _ARGUMENT_BITS
        fits = (self.numbers.less(-limit, range_.low), self.numbers.less(range_.high, limit))
        return replace(range_, bits=_ARGUMENT_BITS, given=(*range_.given, *fits))

    # ---- values ----

    def _compute(self, value: ir.Value, facts: Facts) -> Range | None:
        if isinstance(value.owner, ir.Block):
            return self._block_argument(value, facts)
        op = value.owner.operation
        rule = _RULES.get(op.name)
        return rule(self, op, facts) if rule else None

    def _block_argument(self, value: ir.Value, facts: Facts) -> Range | None:
        if self.is_argument(value):
            return self.argument(ir.BlockArgument(value).arg_number) if is_index(value) else None
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or "unsignedCmp" in loop.attributes:
            return None
        number = list(value.owner.arguments).index(value)
        if number > 0:
            return self._carried(loop, value, number - 1, facts)
        return self._counter(loop, facts)

    def _counter(self, loop: ir.Operation, facts: Facts) -> Range | None:
        """Return a loop's counter, up to its last iteration where all work-items begin and step equally."""
        lower, upper, step = (self.of(v, facts) for v in list(loop.operands)[:3])
        if lower is None or upper is None or step is None:
            return None  # of any step it may have the counter could come round, and begin again far below
        last = self.sum(upper, constant(-1))
        given, bits = lower.given + last.given, max(lower.bits, last.bits)
        n = self.numbers
        if not (same(lower.low, lower.high) and same(step.low, step.high)):
            given = (*given, *step.given, n.less(0, step.low))
            return Range(low=lower.low, high=last.high, bits=bits, given=given)
        span = self.sum(last, self.product(lower, constant(-1)))
        positive = n.most(step.low, 1)
        whole = n.mul(n.divide(n.most(span.high, 0), positive), positive)
        given = (*span.given, *step.given, n.less(0, step.low))
        return Range(low=lower.low, high=n.add(lower.low, whole), bits=span.bits + 1, given=given)

    def _carried(self, loop: ir.Operation, value: ir.Value, number: int, facts: Facts) -> Range | None:
        """Return a number that a loop halves, or the like: it stays between zero and what it was at first."""
        body = loop.regions[0].blocks[0]
        following = body.operations[len(body.operations) - 1].operation.operands[number]
        if isinstance(following.owner, ir.Block) or not is_index(value):
            return None
        op = following.owner.operation
        if op.name not in {"arith.shrui", "arith.divui"} or op.operands[0] != value:
            return None
        if not constant_integer(op.operands[1]):
            return None
        first = self.of(loop.operands[3 + number], facts)
        if first is None:
            return None
        positive = self.numbers.at_most(0, first.low)
        return replace(first, low=0, given=(*first.given, positive))

    def _leaf(self, key: tuple[object, ...], make: Callable[[], ir.Value], least: int | None = None) -> Range:
        """Return a value of the kernel's that is the same for the whole launch."""
        if key not in self._leaves:
            limit = 1 << _ARGUMENT_BITS
            value = make()
            low = self.numbers.less(-limit if least is None else least - 1, value)
            given = (low, self.numbers.less(value, limit))
            self._leaves[key] = Range(low=value, high=value, bits=_ARGUMENT_BITS, given=given)
        return self._leaves[key]

    def _dimension(self, memory: ir.Value, number: int) -> ir.Value:
        index = ir.IndexType.get()
        return self._emit.op("memref.dim", [memory, self._emit.constant(number)], [index]).results[0]

    def _constant(self, op: ir.Operation, facts: Facts) -> Range | None:
        value = constant_integer(op.results[0])
        return None if value is None else constant(value)

    def _cast(self, op: ir.Operation, facts: Facts) -> Range | None:
        source = op.operands[0]
        if (known := constant_integer(source)) is not None:
            return constant(known)
        if not self.is_argument(source) or not is_index(op.results[0]):
            return None
        return self.argument(ir.BlockArgument(source).arg_number, op.name)

    def _identity(self, op: ir.Operation, facts: Facts) -> Range | None:
        name, axis = op.name.removeprefix("gpu."), axis_of(op)
        if name in {"block_dim", "grid_dim"}:
            return self.hardware(name, axis)
        count = self.hardware("block_dim" if name == "thread_id" else "grid_dim", axis)
        if name == "global_id":
            items = self.hardware("block_dim", axis)
            count = Range(low=0, high=self.numbers.mul(items.high, count.high), bits=items.bits + count.bits)
        return Range(low=0, high=self.numbers.sub(count.high, 1), bits=count.bits)

    def _dim(self, op: ir.Operation, facts: Facts) -> Range | None:
        number = constant_integer(op.operands[1])
        memory = op.operands[0]
        if number is None or not isinstance(memory.type, ir.MemRefType):
            return None
        return self.size(memory, number) if 0 <= number < ir.MemRefType(memory.type).rank else None

    def _pair(self, op: ir.Operation, facts: Facts) -> tuple[Range, Range] | None:
        if not is_index(op.results[0]):
            return None
        a, b = (self.of(v, facts) for v in op.operands)
        return None if a is None or b is None else (a, b)

    def _sum(self, op: ir.Operation, facts: Facts) -> Range | None:
        pair = self._pair(op, facts)
        if pair is None:
            return None
        a, b = pair
        if op.name == "arith.addi":
            return self.sum(a, b)
        found = self.sum(a, self.product(b, constant(-1)))
        least, given = facts.ordered.get((op.operands[1], op.operands[0]), (None, ()))
        if least is None:
            return found
        return replace(found, low=self.numbers.most(found.low, least), given=found.given + given)

    def sum(self, a: Range, b: Range) -> Range:
        """Return all sums of numbers of the two."""
        if max(a.bits, b.bits) >= _MOST_BITS:
            a, b = self.narrow(a), self.narrow(b)
        n = self.numbers
        low, high = n.add(a.low, b.low), n.add(a.high, b.high)
        return Range(low=low, high=high, bits=max(a.bits, b.bits) + 1, given=a.given + b.given)

    def _product(self, op: ir.Operation, facts: Facts) -> Range | None:
        pair = self._pair(op, facts)
        return None if pair is None else self.product(*pair)

    def product(self, a: Range, b: Range) -> Range:
        """Return all products of numbers of the two."""
        if a.bits + b.bits > _MOST_BITS:
            a, b = self.narrow(a), self.narrow(b)
        n = self.numbers
        given, bits = a.given + b.given, a.bits + b.bits
        for one, other in ((a, b), (b, a)):
            if isinstance(one.low, int) and same(one.low, one.high):
                ends = [n.mul(one.low, other.low), n.mul(one.low, other.high)]
                low, high = ends if one.low >= 0 else reversed(ends)
                return Range(low=low, high=high, bits=bits, given=given)
        if _not_negative(a) and _not_negative(b):
            return Range(low=n.mul(a.low, b.low), high=n.mul(a.high, b.high), bits=bits, given=given)
        corners = [n.mul(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        low = high = corners[0]
        for corner in corners[1:]:
            low, high = n.least(low, corner), n.most(high, corner)
        return Range(low=low, high=high, bits=bits, given=given)

    def _quotient(self, op: ir.Operation, facts: Facts) -> Range | None:
        """Of a number that is not negative by a constant."""
        by = constant_integer(op.operands[1])
        a = self.of(op.operands[0], facts)
        if a is None or by is None or not is_index(op.results[0]):
            return None
        if op.name == "arith.shrui":
            by = 1 << by if 0 <= by < _SHIFT_LIMIT else 0
        if by <= 0:
            return None
        n = self.numbers
        given = (*a.given, n.at_most(0, a.low))
        return replace(a, low=n.divide(a.low, by), high=n.divide(a.high, by), given=given)

    def _remainder(self, op: ir.Operation, facts: Facts) -> Range | None:
        by = constant_integer(op.operands[1])
        if by is None or by <= 0 or not is_index(op.results[0]):
            return None
        return Range(low=0, high=by - 1, bits=by.bit_length())

    def _mask(self, op: ir.Operation, facts: Facts) -> Range | None:
        mask = constant_integer(op.operands[1])
        if mask is None or mask < 0 or not is_index(op.results[0]):
            return None
        return Range(low=0, high=mask, bits=mask.bit_length())

    def _shift(self, op: ir.Operation, facts: Facts) -> Range | None:
        by = constant_integer(op.operands[1])
        a = self.of(op.operands[0], facts)
        if a is None or by is None or not 0 <= by < _SHIFT_LIMIT or not is_index(op.results[0]):
            return None
        return self.product(a, constant(1 << by))

    def _choice(self, op: ir.Operation, facts: Facts) -> Range | None:
        """Of ``select``, ``minsi`` and ``maxsi``."""
        a, b = (self.of(v, facts) for v in list(op.operands)[-2:])
        if a is None or b is None or not is_index(op.results[0]):
            return None
        n = self.numbers
        low = n.most if op.name == "arith.maxsi" else n.least
        high = n.least if op.name == "arith.minsi" else n.most
        return Range(
            low=low(a.low, b.low),
            high=high(a.high, b.high),
            bits=max(a.bits, b.bits),
            given=a.given + b.given,
        )


def _not_negative(range_: Range) -> bool:
    return isinstance(range_.low, int) and range_.low >= 0


_RULES: dict[str, Callable[[Ranges, ir.Operation, Facts], Range | None]] = {
    "gpu.thread_id": Ranges._identity,
    "gpu.block_id": Ranges._identity,
    "gpu.global_id": Ranges._identity,
    "gpu.block_dim": Ranges._identity,
    "gpu.grid_dim": Ranges._identity,
    "memref.dim": Ranges._dim,
    "arith.constant": lambda r, op, f: (
        None if (c := constant_integer(op.results[0])) is None else constant(c)
    ),
    "arith.index_cast": Ranges._cast,
    "arith.index_castui": Ranges._cast,
    "arith.addi": Ranges._sum,
    "arith.subi": Ranges._sum,
    "arith.muli": Ranges._product,
    "arith.divui": Ranges._quotient,
    "arith.shrui": Ranges._quotient,
    "arith.remui": Ranges._remainder,
    "arith.andi": Ranges._mask,
    "arith.shli": Ranges._shift,
    "arith.select": Ranges._choice,
    "arith.minsi": Ranges._choice,
    "arith.maxsi": Ranges._choice,
}
