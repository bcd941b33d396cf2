"""Exponentials and logarithms of f32 and f64.

Worst errors, in units in the last place, over every 37th value of f32 and the tests' values of f64:

- ``exp2f`` and ``expf``: below 0.94 (1.21 without fused operations), denormal results included;
- the other functions of f32 compute in f64 and round once: below 0.51;
- ``exp`` and ``exp2``: below 0.8, denormal results included; ``log``, ``log2``, ``log10``: below 0.9.

Special values are those of C's functions. The logarithm's coefficients of f64 are fdlibm's, with an error
below 2^-58; the exponential's are Taylor's. Those of f32 are least squares on Chebyshev points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import factorial

from gpubuild.engine.mathlib.expressions import (
    INFINITY,
    LN2,
    NAN,
    ROUND,
    Condition,
    Function,
    Real,
    quick_sum,
    two_sum,
)
from gpubuild.support.frozen import frozen

LN2_F32 = (0.693145751953125, 1.4286068203094172e-06)  # in two parts
_LN2_LOW = 2.3190468138462996e-17  # ln 2 is LN2 + this
_LAST = 13  # 0.35^14 / 14! is below 2^-57
# Of 2 * atanh(s) = log((1 + s) / (1 - s)), divided by s, in s^2
_LOG_SHORT = (
    0.6666666666666206,
    0.40000000011268405,
    0.28571424121268796,
    0.22222863927945993,
    0.1814012879247704,
    0.16622714892883386,
)
_LOG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_LOG_F32 = (0.6666666269302368, 0.40000852942466736, 0.2850988805294037, 0.24034430086612701)
_HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of the root of 1/2
_HALF_ROOT_F32 = 0x3F3504F3
# 1 / log(base) and log 2 / log(base) in two parts each. The first part of the latter ends in zeros, so
# that its product with an exponent is exact.
_BASES = {
    "log": (1.0, 0.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10),
    "log2": (1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
    "log10": (
        0.4342944819032518,
        1.098319650216765e-17,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    ),
}
# By type: coefficients, ln 2 in two parts, and the bound below which log(1 + x) is x.
_LOG1P = {"double": (_LOG, *_BASES["log"][2:], 2.0**-54), "float": (_LOG_F32, *LN2_F32, 2.0**-25)}


@frozen
class _Base:
    """b^x as 2^n * b^r: n = round(x * steps), r = x - n * (high + low), b^r = 1 + lead * r + r^2 * q(r)."""

    steps: float
    high: float
    low: float
    lead: float
    q: tuple[float, ...]
    least: float  # below, the result is 0
    most: float  # above, it is infinite


_EXP = _Base(
    steps=1.4426950408889634,
    high=LN2_F32[0],
    low=LN2_F32[1],
    lead=1.0,
    q=(0.5, 0.16666577, 0.04166646, 0.00836318, 0.00139337),
    least=-104.0,
    most=89.0,
)
_EXP2 = _Base(
    steps=1.0,
    high=1.0,
    low=0.0,
    lead=LN2,
    q=(0.240226508, 0.0555038100, 0.00961808255, 0.00133813084, 0.000154531677),
    least=-151.0,
    most=129.0,
)


def _without_underflow(x: Real, least: float, exponential: Callable[[Real], Real]) -> Real:
    """Return 0 below ``least``. CPUs need ten times as long for a product that is rounded to 0.

    Such arguments are common: softmax of what a mask excludes.
    """
    is_zero = x.compare("olt", least)
    return is_zero.select(0.0, exponential(is_zero.select(0.0, x)))


def _exponential_f32(base: _Base, x: Real) -> Real:
    return _without_underflow(x.at_most(base.most), base.least, partial(_in_range_f32, base))


def _in_range_f32(base: _Base, x: Real) -> Real:
    """Return base^x where it is neither rounded to 0 nor infinite by far."""
    shifted = x.fma(base.steps, ROUND["float"])
    whole = shifted - ROUND["float"]
    r = whole.fma(-base.high, x)
    if base.low:
        r = whole.fma(-base.low, r)
    return r.fma(r.polynomial(base.q), base.lead).fma(r, 1.0).times_power_of_two(shifted.low_integer())


def exp_f32(x: Real) -> Real:
    """Return e^x to about one unit in the last place, in f32, for |x| up to 87."""
    whole, n = x.nearest_to_product(_EXP.steps)
    r = whole.fma(-_EXP.low, whole.fma(-_EXP.high, x))
    return r.polynomial(_EXP.q).fma(r, 1.0).fma(r, 1.0) * x.power_of_two(n)


def exp_short(x: Real) -> Real:
    """Return e^x in f64, to some 2^-42, for |x| up to 700."""
    shifted = x.fma(1 / LN2, ROUND["double"])
    r = (shifted - ROUND["double"]).fma(-LN2, x)
    p = r.polynomial([1.0 / factorial(k) for k in range(11)])
    exponent = x.code.value(f"add i64 {shifted.bits()}, 1023")
    return p * x.emit(f"bitcast i64 {x.code.value(f'shl i64 {exponent}, 52')} to double")


def _exponential(base: str, x: Real) -> Real:
    most, least = (710.0, -746.0) if base == "exp" else (1025.0, -1076.0)
    return _without_underflow(x.at_most(most), least, partial(_in_range, base))


def _in_range(base: str, x: Real) -> Real:
    """Return base^x where it is neither rounded to 0 nor infinite by far."""
    shifted = x.fma(1 / LN2 if base == "exp" else 1.0, ROUND["double"])
    whole = shifted - ROUND["double"]
    if base == "exp":
        exact = whole.fma(-LN2, x)
        r = whole.fma(-_LN2_LOW, exact)
        rest = whole.fma(-_LN2_LOW, exact - r)
    else:
        y = x - whole  # exact
        r = y * LN2
        rest = y.fma(_LN2_LOW, y.fma(LN2, -0.0 - r))
    q = r.polynomial([1.0 / factorial(k) for k in range(2, _LAST + 1)])
    tail = (r * r).fma(q, rest)
    high = 1.0 + r
    return (high + (((1.0 - high) + r) + tail)).times_power_of_two(shifted.low_integer())


def log_near_one(f: Real) -> Real:
    """Return log(1 + f) in f64, to some 2^-44, for 1 + f between the root of 1/2 and that of 2."""
    s = f / (f + 2.0)
    square = s * s
    return s * (square * square.polynomial(_LOG_SHORT) + 2.0)


def log_short(x: Real) -> Real:
    """Return log x in f64, to some 2^-44 of the result or of 1, for positive normal numbers."""
    m, exponent = near_one(x)
    log = log_near_one(m - 1.0)
    return x.emit(f"sitofp i32 {exponent} to double").fma(LN2, log)


def _logarithm_f32(base: str, x: Real) -> Real:
    m, exponent, less = _near_one_or_tiny(x, 2.0**-126, 24)
    log = log_near_one(m.wide() - 1.0)
    k = log.emit(f"sitofp i32 {x.code.value(f'sub i32 {exponent}, {less}')} to double")
    factor = _BASES[base][0]
    return _special(x, k.fma(LN2 * factor, log * factor).narrow(), 0.0)


def _log1p_f32(given: Real) -> Real:
    x = given.wide()
    m, exponent = near_one(x + 1.0)
    log = log_near_one(m - 1.0)
    log = x.emit(f"sitofp i32 {exponent} to double").fma(LN2, log)
    square = x * x
    near = x * x.polynomial((1.0, -0.5, 1.0 / 3))  # 1 + x has lost digits
    return _special(given, square.compare("olt", 2.0**-32).select(near, log).narrow(), -1.0)


def _logarithm(base: str, x: Real) -> Real:
    m, exponent, less = _near_one_or_tiny(x, 2.0**-1022, 54)
    k = x.emit(f"sitofp i32 {x.code.value(f'sub i32 {exponent}, {less}')} to double")
    f = m - 1.0
    # log(1 + f) = high + low
    s = f / (f + 2.0)
    z = s * s
    r = z * z.polynomial(_LOG)
    half = f * 0.5
    square = half * f
    lost = half.fma(f, -0.0 - square)
    high = f - square
    low = (f - high) - square - lost
    low = s.fma(square + r, low)
    factor, factor_low, per_two, per_two_low = _BASES[base]
    product = high
    if factor != 1.0:
        product = high * factor
        low = low.fma(factor, high.fma(factor, -0.0 - product))
        low = high.fma(factor_low, low)
    whole = k * per_two  # exact
    total = whole + product
    lost = (whole - total) + product
    return _special(x, total + (k.fma(per_two_low, low) + lost), 0.0)


def log1p(x: Real) -> Real:
    """Return log(1 + x) of either type, special values included."""
    coefficients, ln2, ln2_low, tiny = _LOG1P[x.kind]
    u, missed = two_sum(x.constant(1.0), x)
    m, exponent = near_one(u)
    near = Condition(x.code, x.code.value(f"icmp eq i32 {exponent}, 0"))  # there x itself loses nothing
    f = near.select(x, m - 1.0)
    missed = near.select(0.0, missed / u)
    k = x.emit(f"sitofp i32 {exponent} to {x.kind}")
    s = f / (f + 2.0)
    z = s * s
    half = f * 0.5
    square, lost = half.product(f)
    high, low = quick_sum(f, -square)
    low = s.fma(square + z * z.polynomial(coefficients), low - lost)
    total, rest = quick_sum(k * ln2, high)
    result = total + (k.fma(ln2_low, low + missed) + rest)
    result = (abs(x).compare("olt", tiny) | x.compare("oeq", INFINITY)).select(x, result)
    result = x.compare("oeq", -1.0).select(-INFINITY, result)
    return x.compare("uge", -1.0).select(x.compare("uno", 0.0).select(x, result), NAN)


def near_one(x: Real) -> tuple[Real, str]:
    """Return (m, e): ``x`` is 2^e * m, m is between the root of 1/2 and that of 2, e is an i32.

    ``x`` is positive and no denormal.
    """
    code, bits = x.code, x.bits()
    if x.kind == "float":
        exponent = code.value(f"ashr i32 {code.value(f'sub i32 {bits}, {_HALF_ROOT_F32}')}, 23")
        shift = code.value(f"shl i32 {exponent}, 23")
        return x.emit(f"bitcast i32 {code.value(f'sub i32 {bits}, {shift}')} to float"), exponent
    above = code.value(f"sub i64 {bits}, {_HALF_ROOT}")
    top = code.value(f"trunc i64 {code.value(f'lshr i64 {above}, 32')} to i32")
    exponent = code.value(f"ashr i32 {top}, 20")
    shift = code.value(f"shl i64 {code.value(f'sext i32 {exponent} to i64')}, 52")
    return x.emit(f"bitcast i64 {code.value(f'sub i64 {bits}, {shift}')} to double"), exponent


def _near_one_or_tiny(x: Real, normal: float, raised: int) -> tuple[Real, str, str]:
    """Return (m, e, r) as :func:`near_one` does, e too large by r, where ``x`` may be a denormal."""
    tiny = x.compare("olt", normal)
    scaled = tiny.select(x * 2.0**raised, x)
    less = x.code.value(f"select i1 {tiny.name}, i32 {raised}, i32 0")
    return *near_one(scaled), less


def _special(x: Real, result: Real, pole: float) -> Real:
    """Select minus infinity at the pole, NaN below it and for NaN, and infinity for infinity."""
    result = x.compare("oeq", INFINITY).select(x, result)
    result = x.compare("oeq", pole).select(-INFINITY, result)
    result = x.compare("uno", 0.0).select(x, result)
    return x.compare("uge", pole).select(result, NAN)


_LOGARITHMS = ("log", "log2", "log10")
F32: dict[str, Function] = {
    "expf": partial(_exponential_f32, _EXP),
    "exp2f": partial(_exponential_f32, _EXP2),
    **{f"{base}f": partial(_logarithm_f32, base) for base in _LOGARITHMS},
    "log1pf": _log1p_f32,
}
F64: dict[str, Function] = {
    **{base: partial(_exponential, base) for base in ("exp", "exp2")},
    **{base: partial(_logarithm, base) for base in _LOGARITHMS},
    "log1p": log1p,
}
SINGLE: dict[str, Function] = {"log1pf": log1p}
# Without fused operations the C library's functions are faster (logf: 33 ms against 51 for 2^24 values,
# two at a time).
NEED_FUSED = {"logf", "log2f", "exp", "exp2", *_LOGARITHMS}
