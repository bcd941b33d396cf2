"""Sine, cosine and tangent of f32 and f64.

An argument is n * pi/2 + r. f64 subtracts products of n with parts of pi/2, which are fused or exact;
beyond a bound, for infinities and NaN, it calls the C library, or where there is none range_reduction.
f32 computes in f64: it multiplies by three parts of 2/pi, far from zero by the parts that count there. Where
f64 is slow (``SINGLE``), f32 works as f64 does. Polynomials of f64 are fdlibm's, those of f32 Taylor's or
minimax fits; docs/explanation/cpu.md has bounds on errors.
"""

from __future__ import annotations

from functools import partial
from math import factorial, pi

from gpubuild.engine.mathlib.expressions import ROUND, Condition, Function, Real, quick_sum, two_sum
from gpubuild.engine.mathlib.range_reduction import near_or_far, or_far

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# 2/pi and its products with 2^27, 2^53 and 2^79, modulo 4: 27 fractional bits, 29 more, and the rest. Floats
# from 2^50, 2^76 and 2^102 on are integers times these powers. Their quotients are below 2^50, so that the
# products with the first two parts are exact. No float is closer to a multiple of pi/2 than 2^-30.
_TWO_OVER_PI = (
    (0.6366197690367699, 3.3308114738561656e-09, 2.276010073078396e-18),
    (3.447053946554661, 2.168126039814311e-09, 1.0330342399379403e-17),
    (2.645500473678112, 2.55590268394279e-09, 8.441553036223536e-18),
    (3.6715237200260162, 6.154438472738555e-09, 9.6110285918178e-18),
)
_FAR = ((2.0**102, 2.0**-79), (2.0**76, 2.0**-53), (2.0**50, 2.0**-27))
_MOST_FUSED, _MOST = 2.0**26, 2.0**20
# Without fused operations: three parts of 33 bits, whose products with numbers below 2^20 are exact, and
# the rest.
_HALF_PI_SHORT = (
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.4784276603689e-32,
)
_SINE = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COSINE = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
# For f32 in f32: parts of pi/2, and minimax fits up to pi/4 and a little.
_MOST_SINGLE = 2.0**16
_HALF_PI_SINGLE = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_SINE_SINGLE = (-0.1666666716337204, 0.008333371952176094, -0.00019849838281515986, 2.7990915896225488e-06)
_COSINE_SINGLE = (0.0416666679084301, -0.0013888973044231534, 2.481918636476621e-05, -2.8600047130566963e-07)


def _quarters_f32(x: Real) -> tuple[Real, str]:
    """Return (r, n): ``x``, a float as a double, is n * pi/2 + r plus turns, |r| up to pi/4 and a little."""
    size = abs(x)
    choices = [size.compare("oge", bound) for bound, _ in _FAR]
    scale, *parts = (x.constant(value) for value in (1.0, *_TWO_OVER_PI[0]))
    for test, (_, power), row in reversed(list(zip(choices, _FAR, _TWO_OVER_PI[:0:-1], strict=True))):
        scale = test.select(power, scale)
        parts = [test.select(new, old) for new, old in zip(row, parts, strict=True)]
    scaled = x * scale
    first, second = scaled * parts[0], scaled * parts[1]  # exact
    (whole, n), (more, m) = first.nearest(), second.nearest()
    a, b = first - whole, second - more
    last, k = (a + b).nearest()
    turns = scaled.fma(parts[2], (a - last) + b)
    return turns * (pi / 2), x.code.value(f"add i32 {x.code.value(f'add i32 {n}, {m}')}, {k}")


def _f32(name: str, given: Real) -> Real:
    r, n = _quarters_f32(given.wide())
    z = r * r
    # Taylor's: the omitted terms are below 2^-36 of the result
    sine = z.polynomial([(-1.0) ** k / factorial(2 * k + 1) for k in range(1, 6)])
    sine = (r * z).fma(sine, r)
    cosine = z.polynomial([(-1.0) ** k / factorial(2 * k) for k in range(7)])
    if name == "tan":
        odd = _bit(r, n, 1)
        result = odd.select(cosine, sine) / odd.select(-sine, cosine)
    else:
        result = _turned(name, n, sine, cosine)
    return _with_zeros(name, given, result.narrow())


def _reduced(given: Real) -> tuple[Real, Real, str]:
    """Return (x, y, n): ``given`` is n * pi/2 + x + y, without fused operations."""
    whole, n = given.nearest_to_product(2 / pi)
    first, second, third, rest = (whole * part for part in _HALF_PI_SHORT)  # all but the last one exact
    a, a_low = two_sum(given - first, -second)
    b, b_low = two_sum(a, -third)
    x, y = quick_sum(b, (a_low + b_low) - rest)
    return x, y, n


def _reduced_fused(given: Real) -> tuple[Real, Real, str]:
    shifted = given.fma(2 / pi, ROUND["double"])
    whole = shifted - ROUND["double"]
    n = shifted.low_integer()
    a = whole.fma(-_HALF_PI[0], given)  # exact
    b = whole * _HALF_PI[1]
    lost = whole.fma(-_HALF_PI[1], b)
    # x + y = a - b + lost - whole * third part
    x = a - b
    back = x - a
    y = (a - (x - back)) - (b + back)
    return x, y + whole.fma(-_HALF_PI[2], lost), n


def _f64(name: str, given: Real) -> Real:
    fused = given.code.fused
    if not given.code.library:
        x, y, n = near_or_far(given, _MOST_FUSED, _reduced_fused)
    else:
        x, y, n = (_reduced_fused if fused else _reduced)(given)
    z = x * x
    sine, cosine = _sine(x, y, z), _cosine(x, y, z)
    if name == "tan":
        odd = _bit(x, n, 1)
        minus = -sine
        near = odd.select(cosine, sine) / odd.select(minus, cosine)
    else:
        near = _turned(name, n, sine, cosine)
    near = _with_zeros(name, given, near)
    return or_far(name, given, _MOST_FUSED if fused else _MOST, near) if given.code.library else near


def _sine(x: Real, y: Real, z: Real) -> Real:
    """Return x - ((z * (y / 2 - v * r) - y) - v * s), as fdlibm has it."""
    v = z * x
    r = z.polynomial(_SINE[1:])
    minus_v = -0.0 - v
    inner = minus_v.fma(r, y * 0.5)
    inner = z.fma(inner, -0.0 - y)
    return x - minus_v.fma(_SINE[0], inner)


def _cosine(x: Real, y: Real, z: Real) -> Real:
    r = z * z.polynomial(_COSINE)
    half = z * 0.5
    w = 1.0 - half
    rest = (1.0 - w) - half
    return w + (rest + z.fma(r, x * (-0.0 - y)))


def _turned(name: str, n: str, sine: Real, cosine: Real) -> Real:
    """Return sine or cosine after ``n`` quarter turns."""
    turns = sine.code.value(f"add i32 {n}, 1") if name == "cos" else n
    value = _bit(sine, turns, 1).select(cosine, sine)
    minus = -0.0 - value
    return _bit(sine, turns, 2).select(minus, value)


def _with_zeros(name: str, given: Real, result: Real) -> Real:
    """Keep the sign of zero, which is its own sine and tangent."""
    return result if name == "cos" else given.compare("oeq", 0.0).select(given, result)


def _bit(x: Real, n: str, bit: int) -> Condition:
    return Condition(x.code, x.code.value(f"icmp ne i32 {x.code.value(f'and i32 {n}, {bit}')}, 0"))


def _reduced_single(x: Real) -> tuple[Real, Real, str]:
    whole, n = x.nearest_to_product(2 / pi)
    a = whole.fma(-_HALF_PI_SINGLE[0], x)  # exact
    b = whole * _HALF_PI_SINGLE[1]
    lost = whole.fma(-_HALF_PI_SINGLE[1], b)
    high, low = two_sum(a, -b)
    return high, low + whole.fma(-_HALF_PI_SINGLE[2], lost), n


def _sine_single(x: Real, y: Real, z: Real) -> Real:
    """Return sin(x + y), where z = x^2."""
    half = z * -0.5
    tail = half.fma(y, y)
    return x + (z * x).fma(z.polynomial(_SINE_SINGLE), tail)


def _cosine_single(x: Real, y: Real, z: Real) -> Real:
    """Return cos(x + y), where z = x^2."""
    half = z * 0.5
    high = 1.0 - half
    rest = (1.0 - high) - half
    return high + (rest + (z * z).fma(z.polynomial(_COSINE_SINGLE), -(x * y)))


def _single(name: str, given: Real) -> Real:
    x, y, n = near_or_far(given, _MOST_SINGLE, _reduced_single)
    z = x * x
    sine, cosine = _sine_single(x, y, z), _cosine_single(x, y, z)
    if name == "cos":
        n = x.code.value(f"add i32 {n}, 1")
    odd = _bit(x, n, 1)
    if name == "tan":
        result = odd.select(cosine, sine) / odd.select(-sine, cosine)
    else:
        value = odd.select(cosine, sine)
        result = _bit(x, n, 2).select(-value, value)
    return _with_zeros(name, given, result)


_NAMES = ("sin", "cos", "tan")
F32: dict[str, Function] = {f"{name}f": partial(_f32, name) for name in _NAMES}
F64: dict[str, Function] = {name: partial(_f64, name) for name in _NAMES}
SINGLE: dict[str, Function] = {f"{name}f": partial(_single, name) for name in _NAMES}
