"""Reals: formulas of floats, written with Python's operators, that add LLVM IR to a ``Code``.

``a * b`` and ``a + b`` stay two roundings; ``fma`` is one where the CPU has it, and ``product`` is exact
everywhere: by Dekker's splitting without fused operations, for what is below 2^995.

Contractions: ``fma`` of f32 on CPUs without an instruction for it.

The product is exact in f64. The sum is rounded to odd there: towards zero, with the last bit set where
something was lost, so that rounding it again gives what rounding once would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpubuild.engine.mathlib.polynomials import ROUND_F64, Code, Maker

_INTEGERS = {"float": "i32", "double": "i64"}
_SHORT = {"float": "f32", "double": "f64"}
_MANTISSA = {"float": 23, "double": 52}
_BIAS = {"float": 127, "double": 1023}
_ROUND = {"float": 12582912.0, "double": ROUND_F64}
_SPLIT = 134217729.0  # 2^27 + 1: parts of 26 bits each


@dataclass(frozen=True, slots=True)
class Truth:
    """A condition."""

    code: Code
    name: str

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.code, self.code.value(f"and i1 {self.name}, {other.name}"))

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.code, self.code.value(f"or i1 {self.name}, {other.name}"))

    def __invert__(self) -> Truth:
        return Truth(self.code, self.code.value(f"xor i1 {self.name}, true"))

    def pick(self, yes: Real | float, no: Real | float) -> Real:
        """One of two numbers, at least one of which is no constant."""
        known = yes if isinstance(yes, Real) else no
        if not isinstance(known, Real):
            raise TypeError("two constants have no type")
        a, b = known.same(yes), known.same(no)
        return known.made(f"select i1 {self.name}, {known.kind} {a}, {known.kind} {b}")


@dataclass(frozen=True, slots=True)
class Real:
    """A number of type ``kind``: ``float`` or ``double``."""

    code: Code
    name: str
    kind: str = "double"

    def made(self, text: str) -> Real:
        """The value of an instruction."""
        return Real(self.code, self.code.value(text), self.kind)

    def constant(self, value: float) -> Real:
        """A constant of the same type."""
        return Real(self.code, self.code.number(value, self.kind), self.kind)

    def same(self, value: Real | float) -> str:
        """The name of a number, or a constant's bits."""
        return value.name if isinstance(value, Real) else self.code.number(value, self.kind)

    def _binary(self, operation: str, left: Real | float, right: Real | float) -> Real:
        return self.made(f"{operation} {self.kind} {self.same(left)}, {self.same(right)}")

    def __add__(self, other: Real | float) -> Real:
        return self._binary("fadd", self, other)

    def __radd__(self, other: float) -> Real:
        return self._binary("fadd", other, self)

    def __sub__(self, other: Real | float) -> Real:
        return self._binary("fsub", self, other)

    def __rsub__(self, other: float) -> Real:
        return self._binary("fsub", other, self)

    def __mul__(self, other: Real | float) -> Real:
        return self._binary("fmul", self, other)

    def __rmul__(self, other: float) -> Real:
        return self._binary("fmul", other, self)

    def __truediv__(self, other: Real | float) -> Real:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> Real:
        return self.made(f"fneg {self.kind} {self.name}")

    def __abs__(self) -> Real:
        return self._intrinsic("fabs")

    def _intrinsic(self, name: str, *others: Real | float) -> Real:
        callee = f"llvm.{name}.{_SHORT[self.kind]}"
        kinds = ", ".join([self.kind] * (1 + len(others)))
        self.code.declarations.add(f"declare {self.kind} @{callee}({kinds})")
        operands = ", ".join(f"{self.kind} {v}" for v in (self.name, *map(self.same, others)))
        return self.made(f"call {self.kind} @{callee}({operands})")

    def root(self) -> Real:
        """Its square root, rounded once."""
        return self._intrinsic("sqrt")

    def whole_part(self) -> Real:
        """Without what is behind the point."""
        return self._intrinsic("trunc")

    def with_sign(self, other: Real) -> Real:
        """Its size with the sign of ``other``."""
        return self._intrinsic("copysign", other)

    def fma(self, factor: Real | float, term: Real | float) -> Real:
        """``self * factor + term``; two roundings without fused operations."""
        name = self.code.fma(self.name, self.same(factor), self.same(term), self.kind)
        return Real(self.code, name, self.kind)

    def poly(self, coefficients: Sequence[float]) -> Real:
        """A polynomial, the constant term first."""
        return Real(self.code, self.code.polynomial(self.name, tuple(coefficients), self.kind), self.kind)

    def product(self, other: Real) -> tuple[Real, Real]:
        """(high, low): their exact product; ``double`` only."""
        high = self * other
        if self.code.fused:
            return high, self.fma(other, -high)
        (a, b), (c, d) = self._halves(), other._halves()
        return high, ((a * c - high) + a * d + b * c) + b * d

    def _halves(self) -> tuple[Real, Real]:
        scaled = self * _SPLIT
        high = scaled - (scaled - self)
        return high, self - high

    def is_(self, test: str, other: Real | float) -> Truth:
        """LLVM's comparisons: ``olt``, ``uno`` and so on."""
        return Truth(self.code, self.code.value(f"fcmp {test} {self.kind} {self.name}, {self.same(other)}"))

    def is_negative(self) -> Truth:
        """Whether its sign is minus; also for zeros."""
        return Truth(self.code, self.code.value(f"icmp slt {_INTEGERS[self.kind]} {self.bits()}, 0"))

    def least(self, bound: float) -> Real:
        """The smaller of it and ``bound``; NaN stays."""
        return self.is_("ogt", bound).pick(bound, self)

    def most(self, bound: float) -> Real:
        """The larger of it and ``bound``; NaN stays."""
        return self.is_("olt", bound).pick(bound, self)

    def nearest(self) -> tuple[Real, str]:
        """The integer next to it, as a number and as an i32 with its low bits; up to 2^50 (2^21)."""
        return self._whole(self + _ROUND[self.kind])

    def nearest_to_product(self, factor: float) -> tuple[Real, str]:
        """The integer next to ``self * factor``, up to rounding."""
        return self._whole(self.fma(factor, _ROUND[self.kind]))

    def _whole(self, shifted: Real) -> tuple[Real, str]:
        bits = shifted.bits()
        if self.kind == "double":
            bits = self.code.value(f"trunc i64 {bits} to i32")
        else:
            bits = self.code.value(f"sub i32 {bits}, {0x4B400000}")
        return shifted - _ROUND[self.kind], bits

    def bits(self) -> str:
        """Its bits, an integer."""
        return self.code.value(f"bitcast {self.kind} {self.name} to {_INTEGERS[self.kind]}")

    def wide(self) -> Real:
        """A float as a double."""
        return Real(self.code, self.code.value(f"fpext float {self.name} to double"))

    def narrow(self) -> Real:
        """A double as a float."""
        return Real(self.code, self.code.value(f"fptrunc double {self.name} to float"), "float")

    def power_of_two(self, exponent: str) -> Real:
        """2^n of this type for an i32 ``exponent`` of a normal number."""
        biased = self.code.value(f"add i32 {exponent}, {_BIAS[self.kind]}")
        integer = _INTEGERS[self.kind]
        if integer == "i64":
            biased = self.code.value(f"zext i32 {biased} to i64")
        shifted = self.code.value(f"shl {integer} {biased}, {_MANTISSA[self.kind]}")
        return self.made(f"bitcast {integer} {shifted} to {self.kind}")


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """(high, low): the exact sum of any two numbers."""
    high = a + b
    back = high - a
    return high, (a - (high - back)) + (b - back)


def quick_sum(a: Real | float, b: Real) -> tuple[Real, Real]:
    """(high, low): the exact sum where ``a`` is zero or no smaller than ``b``."""
    high = a + b
    return high, (a - high) + b


def _fma(code: Code) -> str:
    a, b, c = (Real(code, f"%{i}", "float").wide() for i in range(3))
    total, lost = two_sum(a * b, c)
    bits = total.bits()
    # Nearest may be further from zero than the exact sum; then the number before it is the one.
    further = (lost.is_("ogt", 0.0) & total.is_("olt", 0.0)) | (lost.is_("olt", 0.0) & total.is_("ogt", 0.0))
    step = code.value(f"sext i1 {further.name} to i64")
    some = code.value(f"zext i1 {lost.is_('one', 0.0).name} to i64")
    odd = code.value(f"or i64 {code.value(f'add i64 {bits}, {step}')}, {some}")
    return total.made(f"bitcast i64 {odd} to double").narrow().name


UNFUSED: dict[str, Maker] = {"fmaf": _fma}
