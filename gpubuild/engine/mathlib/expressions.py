"""Floating-point formulas, written with Python's operators, that become straight-line LLVM IR.

LLVM vectorises the functions of this package over work-items, which it cannot do with calls of the C
library, and the program needs no library of vector functions. They have no branches, tables or calls, and
a vector gives the same bits as single values. With fused multiply-add the bits differ from those without.

``a * b + c`` has two roundings. ``fma`` has one where the CPU has the instruction, and ``product`` is
exact everywhere: without fused operations by Dekker's splitting, for results below 2^995.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

INFINITY = float("inf")
NAN = float("nan")
LN2 = 0.6931471805599453
# Adding one of these leaves a rounded integer in the low bits: 1.5 * 2^23 and 1.5 * 2^52.
ROUND = {"float": 12582912.0, "double": 6755399441055744.0}
SHORT = {"float": "f32", "double": "f64"}
_INTEGERS = {"float": "i32", "double": "i64"}
_MANTISSA = {"float": 23, "double": 52}
_BIAS = {"float": 127, "double": 1023}
_SPLIT = 134217729.0  # 2^27 + 1: parts of 26 bits each
_LONG = 7  # coefficients


@dataclass(slots=True)
class Code:
    """The instructions of one function.

    ``fused``: the CPU has fused multiply-add. ``library``: the function may call the C library.
    """

    fused: bool
    library: bool = True
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def value(self, text: str) -> str:
        """Add an instruction and return the name of its value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}\n")
        return name

    def line(self, text: str) -> None:
        """Add a branch, or the label of a block."""
        self.lines.append(f"{text if text.endswith(':') else '  ' + text}\n")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition."""

    code: Code
    name: str

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.code, self.code.value(f"and i1 {self.name}, {other.name}"))

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.code, self.code.value(f"or i1 {self.name}, {other.name}"))

    def __invert__(self) -> Condition:
        return Condition(self.code, self.code.value(f"xor i1 {self.name}, true"))

    def select(self, yes: Real | float, no: Real | float) -> Real:
        """Select one of two numbers, at least one of which is no constant."""
        known = yes if isinstance(yes, Real) else no
        if not isinstance(known, Real):
            raise TypeError("two constants have no type")
        a, b = known.operand(yes), known.operand(no)
        return known.emit(f"select i1 {self.name}, {known.kind} {a}, {known.kind} {b}")


@dataclass(frozen=True, slots=True)
class Real:
    """A number of type ``kind``: ``float`` or ``double``."""

    code: Code
    name: str
    kind: str = "double"

    def emit(self, text: str) -> Real:
        """Add an instruction and return its value, of the same type."""
        return Real(self.code, self.code.value(text), self.kind)

    def constant(self, value: float) -> Real:
        """Return a constant of the same type."""
        return Real(self.code, self.operand(value), self.kind)

    def operand(self, value: Real | float) -> str:
        """Return the name of a number, or a constant as LLVM writes it: as the bits of a double."""
        if isinstance(value, Real):
            return value.name
        if self.kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"

    def _binary(self, operation: str, left: Real | float, right: Real | float) -> Real:
        return self.emit(f"{operation} {self.kind} {self.operand(left)}, {self.operand(right)}")

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

    def __truediv__(self, other: Real | float) -> Real:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: float) -> Real:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> Real:
        return self.emit(f"fneg {self.kind} {self.name}")

    def __abs__(self) -> Real:
        return self._intrinsic("fabs")

    def _intrinsic(self, name: str, *others: Real | float) -> Real:
        callee = f"llvm.{name}.{SHORT[self.kind]}"
        kinds = ", ".join([self.kind] * (1 + len(others)))
        self.code.declarations.add(f"declare {self.kind} @{callee}({kinds})")
        operands = ", ".join(f"{self.kind} {v}" for v in (self.name, *map(self.operand, others)))
        return self.emit(f"call {self.kind} @{callee}({operands})")

    def sqrt(self) -> Real:
        """Return the square root, rounded once."""
        return self._intrinsic("sqrt")

    def truncate(self) -> Real:
        """Round towards zero."""
        return self._intrinsic("trunc")

    def with_sign(self, other: Real) -> Real:
        """Return the magnitude with the sign of ``other``."""
        return self._intrinsic("copysign", other)

    def fma(self, factor: Real | float, term: Real | float) -> Real:
        """Return ``self * factor + term``, with two roundings where there are no fused operations."""
        return self._intrinsic("fma", factor, term) if self.code.fused else self * factor + term

    def polynomial(self, coefficients: Sequence[float]) -> Real:
        """Evaluate a polynomial, whose constant term is first, by Horner's scheme.

        A long one becomes two, which CPUs evaluate at the same time.
        """
        if len(coefficients) >= _LONG:
            square = self * self
            return square.polynomial(coefficients[1::2]).fma(self, square.polynomial(coefficients[::2]))
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = result.fma(self, coefficient)
        return result

    def product(self, other: Real) -> tuple[Real, Real]:
        """Return (high, low), the exact product; without fused operations only of doubles."""
        high = self * other
        if self.code.fused:
            return high, self.fma(other, -high)
        (a, b), (c, d) = self._halves(), other._halves()
        return high, ((a * c - high) + a * d + b * c) + b * d

    def _halves(self) -> tuple[Real, Real]:
        scaled = self * _SPLIT
        high = scaled - (scaled - self)
        return high, self - high

    def compare(self, test: str, other: Real | float) -> Condition:
        """Compare by one of LLVM's predicates, such as ``olt`` or ``uno``."""
        return Condition(
            self.code, self.code.value(f"fcmp {test} {self.kind} {self.name}, {self.operand(other)}")
        )

    def is_negative(self) -> Condition:
        """Test the sign bit, which zeros have, too."""
        return Condition(self.code, self.code.value(f"icmp slt {_INTEGERS[self.kind]} {self.bits()}, 0"))

    def at_most(self, bound: float) -> Real:
        """Return the smaller of this number and ``bound``; NaN stays."""
        return self.compare("ogt", bound).select(bound, self)

    def at_least(self, bound: float) -> Real:
        """Return the larger of this number and ``bound``; NaN stays."""
        return self.compare("olt", bound).select(bound, self)

    def nearest(self) -> tuple[Real, str]:
        """Return the nearest integer, as a number and as an i32; up to 2^50, or 2^21 of ``float``."""
        return self._nearest(self + ROUND[self.kind])

    def nearest_to_product(self, factor: float) -> tuple[Real, str]:
        """Return the integer nearest to ``self * factor``, up to rounding."""
        return self._nearest(self.fma(factor, ROUND[self.kind]))

    def _nearest(self, shifted: Real) -> tuple[Real, str]:
        n = shifted.low_integer()
        return shifted - ROUND[self.kind], n

    def low_integer(self) -> str:
        """Return the low bits, as an i32, of the integer that adding ``ROUND`` has left here."""
        if self.kind == "double":
            return self.code.value(f"trunc i64 {self.bits()} to i32")
        return self.code.value(f"sub i32 {self.bits()}, {0x4B400000}")

    def bits(self) -> str:
        """Return the bits as an integer."""
        return self.code.value(f"bitcast {self.kind} {self.name} to {_INTEGERS[self.kind]}")

    def wide(self) -> Real:
        """Convert to a double."""
        return Real(self.code, self.code.value(f"fpext float {self.name} to double"))

    def narrow(self) -> Real:
        """Convert to a float."""
        return Real(self.code, self.code.value(f"fptrunc double {self.name} to float"), "float")

    def times_power_of_two(self, exponent: str) -> Real:
        """Multiply by 2^n in two steps: n may be below the least exponent, and above the largest."""
        half = self.code.value(f"ashr i32 {exponent}, 1")
        other = self.code.value(f"sub i32 {exponent}, {half}")
        return self * self.power_of_two(half) * self.power_of_two(other)

    def power_of_two(self, exponent: str) -> Real:
        """Return 2^n of this type, where the i32 ``exponent`` is that of a normal number."""
        biased = self.code.value(f"add i32 {exponent}, {_BIAS[self.kind]}")
        integer = _INTEGERS[self.kind]
        if integer == "i64":
            biased = self.code.value(f"zext i32 {biased} to i64")
        shifted = self.code.value(f"shl {integer} {biased}, {_MANTISSA[self.kind]}")
        return self.emit(f"bitcast {integer} {shifted} to {self.kind}")


def not_tiny(size: Real) -> Real:
    """Return a float that is not negative, or 2^-20 where polynomials in it, or in its square, are as for 0.

    The squares of very small numbers are denormal, and CPUs need 30 times as long for products of those.
    """
    return size.at_least(2.0**-20)


def two_sum(a: Real, b: Real) -> tuple[Real, Real]:
    """Return (high, low), the exact sum of any two numbers."""
    high = a + b
    back = high - a
    return high, (a - (high - back)) + (b - back)


def quick_sum(a: Real | float, b: Real) -> tuple[Real, Real]:
    """Return (high, low), the exact sum, where ``a`` is zero or no smaller than ``b``."""
    high = a + b
    return high, (a - high) + b


# Adds the instructions of a function; parameters are Reals, or names of values for integers.
Function = Callable[..., Real]


def in_f64(function: Function) -> Function:
    """Return the f32 function that computes ``function`` in f64 and rounds once."""
    return lambda *numbers: function(*[x.wide() for x in numbers]).narrow()
