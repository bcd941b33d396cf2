"""Check ranges: between which numbers an index lies, for all work-items of a launch.

A range holds for every work-item that gets to an access: of the identities of work-items and workgroups,
of the counters of loops, and of what is computed from them. Its ends are computed when a kernel starts,
from the launch's shape and the kernel's arguments, so that they are the same for the whole launch.

All is done in 64 bits as if they were enough: a range knows how many bits its ends take at most, and what
must be true of arguments for that. What could take more has no range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_conditions import assume
from gpubuild.engine.backends.cpu.sanitizer.check_numbers import Numbers, same
from gpubuild.engine.backends.cpu.sanitizer.check_range import (
    Facts,
    Range,
    axis_of,
    constant,
    constant_of,
    is_index,
)
from gpubuild.engine.ir.builder import Emitter

if TYPE_CHECKING:
    from gpubuild.engine.backends.cpu.sanitizer.check_forms import Atom, Sum

_ARGUMENT_BITS = 30  # arguments and sizes beyond are left to the check of each access
_MOST_BITS = 61
_SHIFT_LIMIT = 30
_ARGUMENT_ATOMS = frozenset({"dim", "argument", "arith.index_cast", "arith.index_castui"})


class Ranges:
    """Ranges of the values of one kernel, computed at the place of ``emit`` in its entry."""

    def __init__(self, kernel: ir.Operation, emit: Emitter) -> None:
        self.numbers = Numbers(emit)
        self._emit = emit
        self._entry = kernel.regions[0].blocks[0]
        self._leaves: dict[tuple[object, ...], Range] = {}
        self._facts: dict[tuple[tuple[ir.Operation, int], ...], Facts] = {}

    def facts_at(self, op: ir.Operation) -> Facts:
        """What the conditions around ``op`` say."""
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
        """The range of an index; ``None`` when nothing is known."""
        if value in facts.known:
            return facts.known[value]
        if value not in facts.memo:
            facts.memo[value] = None  # a value that depends on itself has no range
            facts.memo[value] = self._compute(value, facts)
        return facts.memo[value]

    def size(self, memory: ir.Value, number: int) -> Range | None:
        """The range of one dimension's size."""
        shaped = ir.MemRefType(memory.type)
        if not shaped.is_dynamic_dim(number):
            return constant(shaped.get_dim_size(number))
        if self.is_argument(memory):
            return self._leaf(("dim", memory, number), lambda: self._dimension(memory, number), least=0)
        return None

    def is_argument(self, value: ir.Value) -> bool:
        """Whether ``value`` is one of the kernel's."""
        return isinstance(value.owner, ir.Block) and value.owner == self._entry

    def hardware(self, name: str, axis: str) -> Range:
        """The range of ``gpu.block_dim`` and ``gpu.grid_dim``, each a single number."""
        bits = 11 if name == "block_dim" else 32
        key = (name, axis)
        if key not in self._leaves:
            size = self._emit.dimension(name, axis)
            self._leaves[key] = Range(low=size, high=size, bits=bits)
        return self._leaves[key]

    def narrow(self, range_: Range) -> Range:
        """The same with as few bits as an argument, which becomes one more thing that must be true."""
        if range_.bits <= _ARGUMENT_BITS:
            return range_
        limit = 1 << _ARGUMENT_BITS
        fits = (self.numbers.less(-limit, range_.low), self.numbers.less(range_.high, limit))
        return replace(range_, bits=_ARGUMENT_BITS, given=(*range_.given, *fits))

    def of_sum(self, total: Sum) -> Range | None:
        """The range of what is the same for the whole launch: a single number."""
        result = constant(0)
        for monomial, factor in sorted(total.terms, key=repr):
            part = constant(factor)
            for atom in monomial:
                leaf = self._of_atom(atom)
                if leaf is None:
                    return None
                part = self.product(part, leaf)
            result = self.sum(result, part)
        return result

    def _of_atom(self, atom: Atom) -> Range | None:
        name = str(atom[0])
        if name in {"block_dim", "grid_dim"}:
            return self.hardware(name, str(atom[1]))
        argument = self._entry.arguments[int(atom[1])] if name in _ARGUMENT_ATOMS else None
        if argument is None:
            return None
        if name == "dim":
            return self.size(argument, int(atom[2]))
        if name == "argument":
            return self._leaf(("argument", argument), lambda: argument)
        index = ir.IndexType.get()
        return self._leaf((name, argument), lambda: self._emit.op(name, [argument], [index]).results[0])

    # ---- values ----

    def _compute(self, value: ir.Value, facts: Facts) -> Range | None:
        if isinstance(value.owner, ir.Block):
            return self._block_argument(value, facts)
        op = value.owner.operation
        rule = _RULES.get(op.name)
        return rule(self, op, facts) if rule else None

    def _block_argument(self, value: ir.Value, facts: Facts) -> Range | None:
        if self.is_argument(value):
            return self._leaf(("argument", value), lambda: value) if is_index(value) else None
        loop = value.owner.owner.operation
        if loop.name != "scf.for" or "unsignedCmp" in loop.attributes:
            return None
        number = list(value.owner.arguments).index(value)
        if number > 0:
            return self._carried(loop, value, number - 1, facts)
        return self._counter(loop, facts)

    def _counter(self, loop: ir.Operation, facts: Facts) -> Range | None:
        """A loop's counter, up to its last turn where all work-items begin and step alike."""
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
        """A number that a loop halves, or the like: it stays between zero and what it was at first."""
        body = loop.regions[0].blocks[0]
        following = body.operations[len(body.operations) - 1].operation.operands[number]
        if isinstance(following.owner, ir.Block) or not is_index(value):
            return None
        op = following.owner.operation
        if op.name not in {"arith.shrui", "arith.divui"} or op.operands[0] != value:
            return None
        if not constant_of(op.operands[1]):
            return None
        first = self.of(loop.operands[3 + number], facts)
        if first is None:
            return None
        positive = self.numbers.at_most(0, first.low)
        return replace(first, low=0, given=(*first.given, positive))

    def _leaf(self, key: tuple[object, ...], make: Callable[[], ir.Value], least: int | None = None) -> Range:
        """A value of the kernel's that is the same for the whole launch."""
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

    def _cast(self, op: ir.Operation, facts: Facts) -> Range | None:
        source = op.operands[0]
        if (known := constant_of(source)) is not None:
            return constant(known)
        if not self.is_argument(source) or not is_index(op.results[0]):
            return None
        return self._leaf(
            (op.name, source), lambda: self._emit.op(op.name, [source], [ir.IndexType.get()]).results[0]
        )

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
        number = constant_of(op.operands[1])
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
        """All sums of numbers of the two."""
        if max(a.bits, b.bits) >= _MOST_BITS:
            a, b = self.narrow(a), self.narrow(b)
        n = self.numbers
        low, high = n.add(a.low, b.low), n.add(a.high, b.high)
        return Range(low=low, high=high, bits=max(a.bits, b.bits) + 1, given=a.given + b.given)

    def _product(self, op: ir.Operation, facts: Facts) -> Range | None:
        pair = self._pair(op, facts)
        return None if pair is None else self.product(*pair)

    def product(self, a: Range, b: Range) -> Range:
        """All products of numbers of the two."""
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
        by = constant_of(op.operands[1])
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
        by = constant_of(op.operands[1])
        if by is None or by <= 0 or not is_index(op.results[0]):
            return None
        return Range(low=0, high=by - 1, bits=by.bit_length())

    def _mask(self, op: ir.Operation, facts: Facts) -> Range | None:
        mask = constant_of(op.operands[1])
        if mask is None or mask < 0 or not is_index(op.results[0]):
            return None
        return Range(low=0, high=mask, bits=mask.bit_length())

    def _shift(self, op: ir.Operation, facts: Facts) -> Range | None:
        by = constant_of(op.operands[1])
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
    "arith.constant": lambda r, op, f: None if (c := constant_of(op.results[0])) is None else constant(c),
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
