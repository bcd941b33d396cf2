"""Polynomials: mathematics of f32 as straight-line LLVM IR, which loops over work-items vectorise.

A call of libm is made for one value at a time, and a library of vector functions need not be there when
the program runs. These functions have no branches, tables or calls, and give the same bits in a vector
as alone; with fused multiply-add they are not those without. Worst errors, in units in the last place,
over every 37th value of f32 (tests/e2e/test_cpu_math.py looks at fewer):

- ``exp``, ``exp2``: below 0.94 (1.21 without fused operations), denormal results included;
- the others compute in f64 and round once: below 0.51.

Special values are those of C's functions. Coefficients: least squares on Chebyshev points.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from math import factorial

_ROUND_F32 = 12582912.0  # 1.5 * 2^23: adding it leaves a rounded integer in the low bits
ROUND_F64 = 6755399441055744.0  # 1.5 * 2^52
INFINITY = float("inf")
_LONG = 7
# Of 2 * atanh(s) = log((1 + s) / (1 - s)), divided by s, in s^2
_LOG = (
    0.6666666666666206,
    0.40000000011268405,
    0.28571424121268796,
    0.22222863927945993,
    0.1814012879247704,
    0.16622714892883386,
)
LN2 = 0.6931471805599453


@dataclass(frozen=True, slots=True, kw_only=True)
class _Base:
    """b^x as 2^n * b^r: n = round(x * steps), r = x - n * (high + low), b^r = 1 + lead * r + r^2 * q(r)."""

    steps: float
    high: float
    low: float
    lead: float
    q: tuple[float, ...]
    least: float  # below, the result is 0
    most: float  # above, it is infinite


_EXPONENTIALS = {
    "expf": _Base(
        steps=1.4426950408889634,
        high=0.693145751953125,
        low=1.4286068203094172e-06,
        lead=1.0,
        q=(0.5, 0.16666577, 0.04166646, 0.00836318, 0.00139337),
        least=-104.0,
        most=89.0,
    ),
    "exp2f": _Base(
        steps=1.0,
        high=1.0,
        low=0.0,
        lead=LN2,
        q=(0.240226508, 0.0555038100, 0.00961808255, 0.00133813084, 0.000154531677),
        least=-151.0,
        most=129.0,
    ),
}


@dataclass(slots=True)
class Code:
    """Lines of one function; each method adds an instruction and gives back its value.

    ``fused``: there is fused multiply-add. ``library``: there is a C library, which may be called.
    """

    fused: bool
    library: bool = True
    lines: list[str] = field(default_factory=list)
    declarations: set[str] = field(default_factory=set)

    def value(self, text: str) -> str:
        """Any instruction that has a value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}\n")
        return name

    def line(self, text: str) -> None:
        """What has no value: a branch, or the label of a block."""
        self.lines.append(f"{text if text.endswith(':') else '  ' + text}\n")

    def number(self, value: float, kind: str) -> str:
        """A constant: LLVM wants the bits of a double, which a float must hold exactly."""
        if kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"

    def f(self, operation: str, left: str, right: str, kind: str) -> str:
        """An instruction with two operands of type ``kind``."""
        return self.value(f"{operation} {kind} {left}, {right}")

    def fma(self, a: str, b: str, c: str, kind: str) -> str:
        """``a * b + c``, rounded once where the CPU can."""
        if not self.fused:
            return self.f("fadd", self.f("fmul", a, b, kind), c, kind)
        name = f"llvm.fma.{'f32' if kind == 'float' else 'f64'}"
        self.declarations.add(f"declare {kind} @{name}({kind}, {kind}, {kind})")
        return self.value(f"call {kind} @{name}({kind} {a}, {kind} {b}, {kind} {c})")

    def polynomial(self, x: str, coefficients: tuple[float, ...], kind: str) -> str:
        """Horner's scheme, the constant term first; long ones as two that CPUs run side by side."""
        if len(coefficients) >= _LONG:
            square = self.f("fmul", x, x, kind)
            odd = self.polynomial(square, coefficients[1::2], kind)
            return self.fma(odd, x, self.polynomial(square, coefficients[::2], kind), kind)
        result = self.number(coefficients[-1], kind)
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(coefficient, kind), kind)
        return result

    def select(self, test: str, x: str, bound: float, yes: str, no: str, kind: str) -> str:
        """``yes`` where ``x <test> bound``; what is compared with NaN gives ``no``."""
        found = self.value(f"fcmp {test} {kind} {x}, {self.number(bound, kind)}")
        return self.value(f"select i1 {found}, {kind} {yes}, {kind} {no}")


Maker = Callable[[Code], str]  # adds what a function does, and gives back its result


def _exponential(base: _Base) -> Maker:
    def make(code: Code) -> str:
        kind = "float"
        x = code.select("ogt", "%0", base.most, code.number(base.most, kind), "%0", kind)
        x = code.select("olt", x, base.least, code.number(base.least, kind), x, kind)
        magic = code.number(_ROUND_F32, kind)
        shifted = code.fma(x, code.number(base.steps, kind), magic, kind)
        whole = code.f("fsub", shifted, magic, kind)
        r = code.fma(whole, code.number(-base.high, kind), x, kind)
        if base.low:
            r = code.fma(whole, code.number(-base.low, kind), r, kind)
        q = code.polynomial(r, base.q, kind)
        p = code.fma(code.fma(r, q, code.number(base.lead, kind), kind), r, code.number(1.0, kind), kind)
        # 2^n in two factors: n may be below the least exponent, and above the largest.
        bits = code.value(f"bitcast float {shifted} to i32")
        n = code.value(f"sub i32 {bits}, {0x4B400000}")
        half = code.value(f"ashr i32 {n}, 1")
        for part in (half, code.value(f"sub i32 {n}, {half}")):
            biased = code.value(f"add i32 {part}, 127")
            factor = code.value(f"bitcast i32 {code.value(f'shl i32 {biased}, 23')} to float")
            p = code.f("fmul", p, factor, kind)
        return p

    return make


def exp64(code: Code, x: str) -> str:
    """e^x in f64, to some 2^-42, for |x| up to 700."""
    kind = "double"
    magic = code.number(ROUND_F64, kind)
    shifted = code.fma(x, code.number(1 / LN2, kind), magic, kind)
    whole = code.f("fsub", shifted, magic, kind)
    r = code.fma(whole, code.number(-LN2, kind), x, kind)
    p = code.polynomial(r, tuple(1.0 / factorial(k) for k in range(11)), kind)
    bits = code.value(f"bitcast double {shifted} to i64")
    exponent = code.value(f"shl i64 {code.value(f'add i64 {bits}, 1023')}, 52")
    return code.f("fmul", p, code.value(f"bitcast i64 {exponent} to double"), kind)


def _bounded(code: Code, bound: float) -> str:
    """The argument in f64, kept within ``bound``, beyond which nothing changes."""
    x = code.value("fpext float %0 to double")
    x = code.select("ogt", x, bound, code.number(bound, "double"), x, "double")
    return code.select("olt", x, -bound, code.number(-bound, "double"), x, "double")


def rounded(code: Code, value: str) -> str:
    """A double as a float."""
    return code.value(f"fptrunc double {value} to float")


def _hyperbolic(name: str) -> Maker:
    def make(code: Code) -> str:
        kind = "double"
        one = code.number(1.0, kind)
        x = _bounded(code, 120.0)  # e^120 is more than f32 can hold
        square = code.f("fmul", x, x, kind)
        near: tuple[float, ...]
        if name == "expm1f":
            result = code.f("fsub", exp64(code, x), one, kind)
            near = (1.0, 0.5, 1.0 / 6, 1.0 / 24)
        else:
            e = exp64(code, x)
            other = code.f("fdiv", one, e, kind)
            both = code.f("fsub" if name == "sinhf" else "fadd", e, other, kind)
            result = code.f("fmul", both, code.number(0.5, kind), kind)
            near = (1.0, 1.0 / 6, 1.0 / 120)
        if name != "coshf":  # close to zero the subtraction would lose digits
            in_x = x if name == "expm1f" else square
            small = code.f("fmul", x, code.polynomial(in_x, near, kind), kind)
            size = code.value(f"fcmp olt double {square}, {code.number(2.0**-16, kind)}")
            result = code.value(f"select i1 {size}, double {small}, double {result}")
        return rounded(code, result)

    return make


def _logarithm(name: str) -> Maker:
    def make(code: Code) -> str:
        kind = "double"
        if name == "log1pf":
            return _log1p(code)
        # Denormals become normal first.
        tiny = code.value(f"fcmp olt float %0, {code.number(2.0**-126, 'float')}")
        scaled = code.f("fmul", "%0", code.number(2.0**24, "float"), "float")
        x = code.value(f"select i1 {tiny}, float {scaled}, float %0")
        less = code.value(f"select i1 {tiny}, i32 24, i32 0")
        bits = code.value(f"bitcast float {x} to i32")
        above = code.value(f"sub i32 {bits}, {0x3F3504F3}")  # of the root of 1/2
        exponent = code.value(f"ashr i32 {above}, 23")
        shift = code.value(f"shl i32 {exponent}, 23")
        mantissa = code.value(f"bitcast i32 {code.value(f'sub i32 {bits}, {shift}')} to float")
        m = code.value(f"fpext float {mantissa} to double")
        log = log_near_one(code, code.f("fsub", m, code.number(1.0, kind), kind))
        k = code.value(f"sitofp i32 {code.value(f'sub i32 {exponent}, {less}')} to double")
        factor = {"logf": 1.0, "log2f": 1 / LN2, "log10f": 0.4342944819032518}[name]
        log = code.f("fmul", log, code.number(factor, kind), kind)
        result = rounded(code, code.fma(k, code.number(LN2 * factor, kind), log, kind))
        return _log_special(code, result, 0.0, "%0")

    return make


def log_near_one(code: Code, f: str) -> str:
    """log(1 + f) for 1 + f between the root of 1/2 and that of 2."""
    kind = "double"
    s = code.f("fdiv", f, code.f("fadd", f, code.number(2.0, kind), kind), kind)
    square = code.f("fmul", s, s, kind)
    q = code.f("fmul", square, code.polynomial(square, _LOG, kind), kind)
    return code.f("fmul", s, code.f("fadd", q, code.number(2.0, kind), kind), kind)


def _log1p(code: Code) -> str:
    kind = "double"
    x = code.value("fpext float %0 to double")
    y = code.f("fadd", x, code.number(1.0, kind), kind)
    bits = code.value(f"bitcast double {y} to i64")
    above = code.value(f"sub i64 {bits}, {0x3FE6A09E667F3BCD}")  # of the root of 1/2
    top = code.value(f"trunc i64 {code.value(f'lshr i64 {above}, 32')} to i32")
    exponent = code.value(f"ashr i32 {top}, 20")
    shift = code.value(f"shl i64 {code.value(f'sext i32 {exponent} to i64')}, 52")
    m = code.value(f"bitcast i64 {code.value(f'sub i64 {bits}, {shift}')} to double")
    log = log_near_one(code, code.f("fsub", m, code.number(1.0, kind), kind))
    k = code.value(f"sitofp i32 {exponent} to double")
    log = code.fma(k, code.number(LN2, kind), log, kind)
    # Next to zero, 1 + x has lost digits.
    square = code.f("fmul", x, x, kind)
    near = code.f("fmul", x, code.polynomial(x, (1.0, -0.5, 1.0 / 3), kind), kind)
    size = code.value(f"fcmp olt double {square}, {code.number(2.0**-32, kind)}")
    return _log_special(
        code, rounded(code, code.value(f"select i1 {size}, double {near}, double {log}")), -1.0, "%0"
    )


def _log_special(code: Code, result: str, pole: float, x: str) -> str:
    """Minus infinity at the pole, NaN below it and for NaN; plus infinity stays."""
    kind = "float"
    result = code.select("oeq", x, INFINITY, x, result, kind)
    result = code.select("oeq", x, pole, code.number(-INFINITY, kind), result, kind)
    return code.select("uge", x, pole, code.select("uno", x, 0.0, x, result, kind), NAN, kind)


# Without fused operations, two values at a time, the C library's are faster (33 ms against 51 for 2^24).
NEED_FUSED = frozenset({"logf", "log2f"})
NAN = "0x7FF8000000000000"
MAKERS: dict[str, Maker] = {
    **{name: _exponential(base) for name, base in _EXPONENTIALS.items()},
    **{name: _hyperbolic(name) for name in ("sinhf", "coshf", "expm1f")},
    **{name: _logarithm(name) for name in ("logf", "log2f", "log10f", "log1pf")},
}
