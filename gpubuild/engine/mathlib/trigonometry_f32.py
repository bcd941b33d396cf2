"""Single turns: sine, cosine and tangent of f32 in f32, with fused multiply-add.

Up to 2^16, an argument is n * pi/2 + x + y with pi/2 in three parts, of which the product of n with the first
is taken off exactly; beyond, far_turns does it. Coefficients: minimax fits, up to pi/4 and a little.
"""

from __future__ import annotations

from functools import partial
from math import pi

from gpubuild.engine.mathlib.expressions import Real, Truth, two_sum
from gpubuild.engine.mathlib.polynomials import Code, Maker
from gpubuild.engine.mathlib.range_reduction import near_or_far

_KIND = "float"
_MOST = 2.0**16
_HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_SINE = (-0.1666666716337204, 0.008333371952176094, -0.00019849838281515986, 2.7990915896225488e-06)
_COSINE = (0.0416666679084301, -0.0013888973044231534, 2.481918636476621e-05, -2.8600047130566963e-07)


def _near(x: Real) -> tuple[str, str, str]:
    whole, n = x.nearest_to_product(2 / pi)
    a = whole.fma(-_HALF_PI[0], x)  # exact
    b = whole * _HALF_PI[1]
    lost = whole.fma(-_HALF_PI[1], b)
    high, low = two_sum(a, -b)
    return high.name, (low + whole.fma(-_HALF_PI[2], lost)).name, n


def _sine(x: Real, y: Real, z: Real) -> Real:
    """sin(x + y), where z = x^2."""
    half = z * -0.5
    tail = half.fma(y, y)
    return x + (z * x).fma(z.poly(_SINE), tail)


def _cosine(x: Real, y: Real, z: Real) -> Real:
    """cos(x + y), where z = x^2."""
    half = z * 0.5
    high = 1.0 - half
    rest = (1.0 - high) - half
    return high + (rest + (z * z).fma(z.poly(_COSINE), -(x * y)))


def _turns(name: str, code: Code) -> str:
    given = Real(code, "%0", _KIND)
    a, b, n = near_or_far(given, _MOST, partial(_near, given))
    x, y = Real(code, a, _KIND), Real(code, b, _KIND)
    z = x * x
    sine, cosine = _sine(x, y, z), _cosine(x, y, z)
    if name == "cosf":
        n = code.value(f"add i32 {n}, 1")
    odd = _bit(code, n, 1)
    if name == "tanf":
        result = odd.pick(cosine, sine) / odd.pick(-sine, cosine)
    else:
        value = odd.pick(cosine, sine)
        result = _bit(code, n, 2).pick(-value, value)
    if name == "cosf":
        return result.name
    return given.is_("oeq", 0.0).pick(given, result).name  # keeps the sign of zero


def _bit(code: Code, n: str, bit: int) -> Truth:
    return Truth(code, code.value(f"icmp ne i32 {code.value(f'and i32 {n}, {bit}')}, 0"))


SINGLE: dict[str, Maker] = {name: partial(_turns, name) for name in ("sinf", "cosf", "tanf")}
