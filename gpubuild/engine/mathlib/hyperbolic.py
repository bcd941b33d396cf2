"""Hyperbolic functions, their inverses and ``expm1``, of f32 and f64.

f64: with x = n ln 2 + r, both e^x and e^-x are sums of sinh r and cosh r times powers of two. So no
subtraction loses digits, and only ``tanh`` divides. f32 computes in f64, except ``tanhf``. Coefficients are
Taylor's or minimax fits; docs/explanation/cpu.md has bounds on errors.
"""

from __future__ import annotations

from functools import partial
from math import factorial

from gpubuild.engine.mathlib.exp_log import LN2_F32, exp_f32, exp_short, log1p, log_short
from gpubuild.engine.mathlib.expressions import (
    INFINITY,
    LN2,
    NAN,
    Function,
    Real,
    in_f64,
    not_tiny,
    quick_sum,
)
from gpubuild.support.frozen import frozen

_STEPS = 1.4426950408889634
# (tanh x / x - 1) / x^2 in x^2 up to 0.625^2
_TANH_F32 = (-0.3333328068256378, 0.13331440091133118, -0.053739551454782486, 0.02063860557973385,
             -0.005704497452825308)  # fmt: skip


@frozen
class _Fits:
    """Values that differ between the types: ln 2 in parts, coefficients, bounds of functions."""

    ln2: tuple[float, float]  # small multiples of the first one are exact
    sinh: tuple[float, ...]  # (sinh r / r - 1) / r^2 in r^2
    cosh: tuple[float, ...]  # (cosh r - 1) / r^2
    most: float  # beyond, sinh and cosh are infinite
    one: float  # beyond, tanh is 1
    last: int  # beyond, 2^-n does not count beside 2^n
    small: float  # below, functions with f(x) = x + ... are x
    large: float  # beyond, asinh x and acosh x are log 2x


_FITS = {
    "double": _Fits(
        ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
        sinh=tuple(1.0 / factorial(2 * k + 1) for k in range(1, 7)),
        cosh=tuple(1.0 / factorial(2 * k) for k in range(1, 8)),
        most=711.0,
        one=22.0,
        last=64,
        small=2.0**-54,
        large=2.0**28,
    ),
    "float": _Fits(
        ln2=LN2_F32,
        sinh=(0.1666666716337204, 0.008333191275596619, 0.00019959290511906147),
        cosh=(0.5, 0.04166645556688309, 0.001393578015267849),
        most=90.0,
        one=10.0,
        last=32,
        small=2.0**-25,
        large=2.0**14,
    ),
}


def _tanh_f32(x: Real) -> Real:
    size = abs(x).at_most(10.0)
    e = exp_f32(size + size)
    far = 1.0 - 2.0 / (e + 1.0)
    least = not_tiny(size)
    z = least * least
    near = (z * z.polynomial(_TANH_F32)).fma(size, size)
    return size.compare("olt", 0.625).select(near, far).with_sign(x)


def _hyperbolic_f32(name: str, x: Real) -> Real:
    x = x.at_most(120.0).at_least(-120.0)  # e^120 is infinite in f32
    square = x * x
    near: tuple[float, ...]
    if name == "expm1":
        result = exp_short(x) - 1.0
        near = (1.0, 0.5, 1.0 / 6, 1.0 / 24)
    else:
        e = exp_short(x)
        other = 1.0 / e
        result = (e - other if name == "sinh" else e + other) * 0.5
        near = (1.0, 1.0 / 6, 1.0 / 120)
    if name == "cosh":
        return result
    # Close to zero the subtraction would lose digits.
    small = x * (x if name == "expm1" else square).polynomial(near)
    return square.compare("olt", 2.0**-16).select(small, result)


def _inverse_f32(name: str, x: Real) -> Real:
    size = abs(x)
    z = x * x
    if name == "acosh":
        far = log_short(x + ((x - 1.0) * (x + 1.0)).sqrt())
        far = x.compare("oeq", INFINITY).select(x, far)
        return x.compare("ult", 1.0).select(NAN, far)
    if name == "asinh":
        far, third = log_short(size + (z + 1.0).sqrt()), -1.0 / 6
        far = size.compare("oeq", INFINITY).select(size, far)
    else:
        far, third = log_short((1.0 + size) / (1.0 - size)) * 0.5, 1.0 / 3
        far = size.compare("oeq", 1.0).select(INFINITY, far)
        far = size.compare("ugt", 1.0).select(NAN, far)
    near = (z * size).fma(third, size)
    result = size.compare("olt", 2.0**-10).select(near, far)
    # Integer operations on NaN give numbers.
    return x.compare("uno", 0.0).select(x, result).with_sign(x)


def _parts(x: Real, more: Real | None = None) -> tuple[Real, Real, Real, str]:
    """Return (r, S, C, n): x + more = n ln 2 + r + e, a small e, S = sinh(r + e) - r, C = cosh(r + e) - 1."""
    fits = _FITS[x.kind]
    high, low = fits.ln2
    whole, n = x.nearest_to_product(_STEPS)
    exact = whole.fma(-high, x)
    r = whole.fma(-low, exact)
    rest = whole.fma(-low, exact - r)
    z = r * r
    cosh = z * z.polynomial(fits.cosh)
    if more is not None:  # it may be larger than the terms that the first order leaves out
        rest = rest + more
        sinh = (z * r) * z.polynomial(fits.sinh)
        return r, sinh + rest.fma(cosh, rest), rest.fma(r + sinh, cosh), n
    sinh = (z * r).fma(z.polynomial(fits.sinh), rest.fma(cosh, rest))
    return r, sinh, rest.fma(r, cosh), n


def exp_of_sum(x: Real, more: Real) -> Real:
    """Return e^(x + more) of either type for a small ``more``; denormal results included.

    f64: for x from -746 to 711; f32: from -112 to 90.
    """
    r, sinh, cosh, n = _parts(x, more)
    high = 1.0 + r
    result = high + (((1.0 - high) + r) + (sinh + cosh))
    return result.times_power_of_two(n)


def _mixed(a: tuple[Real, Real], b: tuple[Real, Real], r: Real, sinh: Real, cosh: Real) -> tuple[Real, Real]:
    """Return (high, low) of a cosh r + b sinh r, where a is zero or |a| no smaller than |b r|."""
    high = b[0].fma(r, a[0])
    low = b[0].fma(r, a[0] - high) + b[1].fma(r, a[1])
    return high, a[0].fma(cosh, b[0].fma(sinh, low))


def _small(x: Real, result: Real) -> Real:
    """Return ``x`` where that is the nearest number: powers of two would lose digits of denormals."""
    return abs(x).compare("olt", _FITS[x.kind].small).select(x, result)


def _expm1(x: Real) -> Real:
    code = x.code
    r, sinh, cosh, n = _parts(x.at_most(_FITS[x.kind].most).at_least(-40.0))
    scale = x.power_of_two(code.value(f"sub i32 {n}, 4"))  # 2^n may be infinite
    a = scale - 0.0625
    high = scale.fma(r, a)
    low = scale.fma(sinh + cosh, scale.fma(r, a - high))
    return _small(x, (high + low) * 16.0)


def _hyperbolic(name: str, x: Real) -> Real:
    code, fits = x.code, _FITS[x.kind]
    r, sinh, cosh, n = _parts(abs(x).at_most(fits.one if name == "tanh" else fits.most))
    plus = x.power_of_two(code.value(f"sub i32 {n}, 4"))
    few = code.value(f"icmp slt i32 {n}, {fits.last}")
    less = code.value(f"select i1 {few}, i32 {n}, i32 {fits.last}")
    minus = x.power_of_two(code.value(f"sub i32 -4, {less}"))
    a, b = quick_sum(plus, -minus), quick_sum(plus, minus)
    if name == "cosh":
        high, low = _mixed(b, a, r, sinh, cosh)
        return (high + low) * 8.0
    high, low = _mixed(a, b, r, sinh, cosh)
    if name == "sinh":
        return _small(x, ((high + low) * 8.0).with_sign(x))
    high, low = quick_sum(high, low)
    bottom, bottom_low = quick_sum(*_mixed(b, a, r, sinh, cosh))
    inverse = 1.0 / bottom
    quotient = high * inverse if code.fused else high / bottom
    left = low - quotient * bottom_low
    if code.fused:
        left = left + (-quotient).fma(bottom, high)
    return _small(x, left.fma(inverse, quotient).with_sign(x))


def _inverse(name: str, x: Real) -> Real:
    size = abs(x)
    if name == "atanh":
        twice = size + size
        near = twice + twice * size / (1.0 - size)
        inner = size.compare("olt", 0.5).select(near, twice / (1.0 - size))
        return _small(x, (log1p(inner) * 0.5).with_sign(x))
    large = size.compare("ogt", _FITS[x.kind].large)
    if name == "asinh":
        z = size * size
        inner = large.select(size - 1.0, size + z / (1.0 + (z + 1.0).sqrt()))
    else:
        above = x - 1.0
        inner = large.select(size - 1.0, above + (above * (above + 2.0)).sqrt())
    result = log1p(inner)
    result = large.select(result + LN2, result)
    if name == "asinh":
        return _small(x, result.with_sign(x))
    return x.compare("ult", 1.0).select(NAN, result)


_INVERSES = {name: partial(_inverse, name) for name in ("acosh", "asinh", "atanh")}
F32: dict[str, Function] = {
    "tanhf": _tanh_f32,
    **{f"{name}f": in_f64(partial(_hyperbolic_f32, name)) for name in ("sinh", "cosh", "expm1")},
    **{f"{name}f": in_f64(partial(_inverse_f32, name)) for name in _INVERSES},
}
F64: dict[str, Function] = {
    **_INVERSES,
    "expm1": _expm1,
    **{name: partial(_hyperbolic, name) for name in ("tanh", "sinh", "cosh")},
}
SINGLE: dict[str, Function] = {f"{name}f": function for name, function in F64.items() if name != "tanh"}
NEED_FUSED = {"acosh"}
