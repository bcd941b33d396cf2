"""Check numbers: arithmetic on bounds that are known now, or emitted to be known when a kernel starts."""

from __future__ import annotations

from typing import TypeAlias

from mlir import ir

from gpubuild.engine.ir.builder import Emitter

Number: TypeAlias = "int | ir.Value"
Truth: TypeAlias = "bool | ir.Value"
_EQUAL, _LESS, _AT_MOST = 0, 2, 3  # arith.cmpi predicates, signed


class Numbers:
    """Integers and truths; what can be computed now is, the rest is emitted where ``emit`` points.

    Nothing here may overflow: whoever asks knows how large numbers can be.
    """

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit

    def value(self, number: Number) -> ir.Value:
        """``number`` as a value of type index."""
        return self.emit.constant(number) if isinstance(number, int) else number

    def add(self, a: Number, b: Number) -> Number:
        """``a + b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        return a if b == 0 else self._binary("arith.addi", a, b)

    def sub(self, a: Number, b: Number) -> Number:
        """``a - b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.subi", a, b)

    def mul(self, a: Number, b: Number) -> Number:
        """``a * b``."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if isinstance(a, int) and a in (0, 1):
            return b if a else 0
        if isinstance(b, int) and b in (0, 1):
            return a if b else 0
        return self._binary("arith.muli", a, b)

    def divide(self, a: Number, b: Number) -> Number:
        """``a / b``, rounded down, of what is not negative by what is positive."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if isinstance(b, int) and b == 1 else self._binary("arith.divui", a, b)

    def least(self, a: Number, b: Number) -> Number:
        """The smaller one."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return a if same(a, b) else self._binary("arith.minsi", a, b)

    def most(self, a: Number, b: Number) -> Number:
        """The larger one."""
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return a if same(a, b) else self._binary("arith.maxsi", a, b)

    def less(self, a: Number, b: Number) -> Truth:
        """Whether ``a < b``."""
        return a < b if isinstance(a, int) and isinstance(b, int) else self._compare(_LESS, a, b)

    def at_most(self, a: Number, b: Number) -> Truth:
        """Whether ``a <= b``."""
        return a <= b if isinstance(a, int) and isinstance(b, int) else self._compare(_AT_MOST, a, b)

    def equal(self, a: Number, b: Number) -> Truth:
        """Whether ``a == b``."""
        return a == b if isinstance(a, int) and isinstance(b, int) else self._compare(_EQUAL, a, b)

    def either(self, a: Truth, b: Truth) -> Truth:
        """Whether one of the two holds."""
        if isinstance(a, bool):
            return True if a else b
        if isinstance(b, bool):
            return True if b else a
        return self.emit.binary("arith.ori", a, b)

    def _binary(self, name: str, a: Number, b: Number) -> ir.Value:
        return self.emit.binary(name, self.value(a), self.value(b))

    def _compare(self, predicate: int, a: Number, b: Number) -> ir.Value:
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        i1 = ir.IntegerType.get_signless(1)
        operands = [self.value(a), self.value(b)]
        return self.emit.op("arith.cmpi", operands, [i1], {"predicate": attribute}).results[0]


def same(a: Number, b: Number) -> bool:
    """Whether two numbers are known to be the same now."""
    return isinstance(a, int) == isinstance(b, int) and a == b
