"""Hyperbolics: ``tanh``, ``sinh``, ``cosh``, ``expm1`` of f64, ``tanh`` of f32, inverse functions of both.

f64: with x = n ln 2 + r, both e^x and e^-x are sums of sinh r and cosh r times powers of two, so that no
subtraction loses digits, and only ``tanh`` divides. ``tanh`` of f32 is computed in f32. Taylor's
coefficients where nothing else is said; bounds on errors are in docs/cpu.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

from gpubuild.engine.mathlib.exp_log_f64 import log1p, near_one
from gpubuild.engine.mathlib.expressions import Real, quick_sum
from gpubuild.engine.mathlib.polynomials import LN2, Code, Maker, log_near_one

_STEPS = 1.4426950408889634
_LN2_F32 = (0.693145751953125, 1.4286068203094172e-06)
_EXP_F32 = (0.5, 0.16666577, 0.04166646, 0.00836318, 0.00139337)
# (tanh x / x - 1) / x^2 in x^2 up to 0.625^2
_TANH_F32 = (-0.3333328068256378, 0.13331440091133118, -0.053739551454782486, 0.02063860557973385,
             -0.005704497452825308)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fits:
    """What differs between the types: ln 2 in parts, coefficients, and where functions end."""

    ln2: tuple[float, float]  # the first one has so few bits that small multiples are exact
    sinh: tuple[float, ...]  # (sinh r / r - 1) / r^2 in r^2
    cosh: tuple[float, ...]  # (cosh r - 1) / r^2
    most: float  # beyond, sinh and cosh are infinite
    one: float  # beyond, tanh is 1
    last: int  # 2^-n counts beside 2^n up to this n
    small: float  # up to there, functions with f(x) = x + ... are x
    large: float  # from there, asinh x and acosh x are log 2x


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
        ln2=_LN2_F32,
        sinh=(0.1666666716337204, 0.008333191275596619, 0.00019959290511906147),
        cosh=(0.5, 0.04166645556688309, 0.001393578015267849),
        most=90.0,
        one=10.0,
        last=32,
        small=2.0**-25,
        large=2.0**14,
    ),
}


def exp_f32(x: Real) -> Real:
    """e^x to about one unit in the last place, in f32, for |x| up to 87."""
    whole, n = x.nearest_to_product(_STEPS)
    r = whole.fma(-_LN2_F32[1], whole.fma(-_LN2_F32[0], x))
    p = r.poly(_EXP_F32).fma(r, 1.0).fma(r, 1.0)
    return p * x.power_of_two(n)


def _tanh_f32(code: Code) -> str:
    x = Real(code, "%0", "float")
    size = abs(x).least(10.0)
    e = exp_f32(size + size)
    far = 1.0 - 2.0 / (e + 1.0)
    z = size * size
    near = (z * z.poly(_TANH_F32)).fma(size, size)
    return size.is_("olt", 0.625).pick(near, far).with_sign(x).name


def log_f64(x: Real) -> Real:
    """log x in f64, to some 2^-44 of the result or of 1, for positive normal numbers."""
    m, exponent = near_one(x.code, x.name)
    log = Real(x.code, log_near_one(x.code, (Real(x.code, m) - 1.0).name))
    k = Real(x.code, x.code.value(f"sitofp i32 {exponent} to double"))
    return k.fma(LN2, log)


def _inverse_f32(name: str) -> Maker:
    def make(code: Code) -> str:
        given = Real(code, "%0", "float")
        x = given.wide()
        size = abs(x)
        z = x * x
        if name == "acoshf":
            far = log_f64(x + ((x - 1.0) * (x + 1.0)).root())
            far = x.is_("oeq", float("inf")).pick(x, far)
            return x.is_("ult", 1.0).pick(float("nan"), far).narrow().name
        if name == "asinhf":
            far, third = log_f64(size + (z + 1.0).root()), -1.0 / 6
            far = size.is_("oeq", float("inf")).pick(size, far)
        else:
            far, third = log_f64((1.0 + size) / (1.0 - size)) * 0.5, 1.0 / 3
            far = size.is_("oeq", 1.0).pick(float("inf"), far)
            far = size.is_("ugt", 1.0).pick(float("nan"), far)
        near = (z * size).fma(third, size)
        result = size.is_("olt", 2.0**-10).pick(near, far)
        return _keep_nan(x, result).with_sign(x).narrow().name

    return make


def _keep_nan(x: Real, result: Real) -> Real:
    """Integer operations on NaN give numbers."""
    return x.is_("uno", 0.0).pick(x, result)


def _parts(x: Real, more: Real | None = None) -> tuple[Real, Real, Real, str]:
    """(r, S, C, n): x + more = n ln 2 + r + a little, S = sinh - r, C = cosh - 1 of r and that."""
    fits = _FITS[x.kind]
    high, low = fits.ln2
    whole, n = x.nearest_to_product(_STEPS)
    exact = whole.fma(-high, x)
    r = whole.fma(-low, exact)
    rest = whole.fma(-low, exact - r)
    z = r * r
    cosh = z * z.poly(fits.cosh)
    if more is not None:  # which may be larger than what the first order of its factor leaves out
        rest = rest + more
        sinh = (z * r) * z.poly(fits.sinh)
        return r, sinh + rest.fma(cosh, rest), rest.fma(r + sinh, cosh), n
    sinh = (z * r).fma(z.poly(fits.sinh), rest.fma(cosh, rest))
    return r, sinh, rest.fma(r, cosh), n


def exp_of_sum(x: Real, more: Real) -> Real:
    """e^(x + more) of either type for a small ``more``; denormal results included.

    f64: for x from -746 to 711; f32: from -112 to 90.
    """
    r, sinh, cosh, n = _parts(x, more)
    high = 1.0 + r
    result = high + (((1.0 - high) + r) + (sinh + cosh))
    # 2^n in two factors: n may be below the least exponent, and above the largest.
    half = x.code.value(f"ashr i32 {n}, 1")
    other = x.code.value(f"sub i32 {n}, {half}")
    return result * x.power_of_two(half) * x.power_of_two(other)


Pair = tuple[Real, Real]  # a number and what it misses


def _mixed(a: Pair, b: Pair, r: Real, sinh: Real, cosh: Real) -> Pair:
    """a cosh r + b sinh r, where a is zero or |a| no smaller than |b r|."""
    high = b[0].fma(r, a[0])
    low = b[0].fma(r, a[0] - high) + b[1].fma(r, a[1])
    return high, a[0].fma(cosh, b[0].fma(sinh, low))


def _small(x: Real, result: Real) -> Real:
    """``x`` itself where that is the nearest number: powers of two would lose digits of denormals."""
    return abs(x).is_("olt", _FITS[x.kind].small).pick(x, result)


def _expm1(x: Real) -> Real:
    code = x.code
    r, sinh, cosh, n = _parts(x.least(_FITS[x.kind].most).most(-40.0))
    scale = x.power_of_two(code.value(f"sub i32 {n}, 4"))  # 2^n may be more than the largest number
    a = scale - 0.0625
    high = scale.fma(r, a)
    low = scale.fma(sinh + cosh, scale.fma(r, a - high))
    return _small(x, (high + low) * 16.0)


def _maker(kind: str, function: Callable[[Real], Real]) -> Maker:
    return lambda code: function(Real(code, "%0", kind)).name


def _hyperbolic(name: str, kind: str) -> Maker:
    def make(code: Code) -> str:
        x = Real(code, "%0", kind)
        fits = _FITS[kind]
        r, sinh, cosh, n = _parts(abs(x).least(fits.one if name == "tanh" else fits.most))
        plus = x.power_of_two(code.value(f"sub i32 {n}, 4"))
        few = code.value(f"icmp slt i32 {n}, {fits.last}")  # 2^-n counts up to there
        less = code.value(f"select i1 {few}, i32 {n}, i32 {fits.last}")
        minus = x.power_of_two(code.value(f"sub i32 -4, {less}"))
        a, b = quick_sum(plus, -minus), quick_sum(plus, minus)
        if name == "cosh":
            high, low = _mixed(b, a, r, sinh, cosh)
            return ((high + low) * 8.0).name
        high, low = _mixed(a, b, r, sinh, cosh)
        if name == "sinh":
            return _small(x, ((high + low) * 8.0).with_sign(x)).name
        high, low = quick_sum(high, low)
        bottom, bottom_low = quick_sum(*_mixed(b, a, r, sinh, cosh))
        inverse = 1.0 / bottom
        quotient = high * inverse if code.fused else high / bottom
        left = low - quotient * bottom_low
        if code.fused:
            left = left + (-quotient).fma(bottom, high)
        return _small(x, left.fma(inverse, quotient).with_sign(x)).name

    return make


def _inverse(name: str, kind: str) -> Maker:
    def make(code: Code) -> str:
        x = Real(code, "%0", kind)
        size = abs(x)
        if name == "atanh":
            twice = size + size
            near = twice + twice * size / (1.0 - size)
            inner = size.is_("olt", 0.5).pick(near, twice / (1.0 - size))
            return _small(x, (log1p(inner) * 0.5).with_sign(x)).name
        large = size.is_("ogt", _FITS[kind].large)  # where it is the logarithm of twice as much
        if name == "asinh":
            z = size * size
            inner = large.pick(size - 1.0, size + z / (1.0 + (z + 1.0).root()))
        else:
            above = x - 1.0
            inner = large.pick(size - 1.0, above + (above * (above + 2.0)).root())
        result = log1p(inner)
        result = large.pick(result + LN2, result)
        if name == "asinh":
            return _small(x, result.with_sign(x)).name
        return x.is_("ult", 1.0).pick(float("nan"), result).name

    return make


F32: dict[str, Maker] = {
    "tanhf": _tanh_f32,
    **{name: _inverse_f32(name) for name in ("acoshf", "asinhf", "atanhf")},
}
F64: dict[str, Maker] = {
    **{name: _inverse(name, "double") for name in ("acosh", "asinh", "atanh")},
    "expm1": _maker("double", _expm1),
    **{name: _hyperbolic(name, "double") for name in ("tanh", "sinh", "cosh")},
}
SINGLE: dict[str, Maker] = {
    **{f"{name}f": _inverse(name, "float") for name in ("acosh", "asinh", "atanh")},
    "expm1f": _maker("float", _expm1),
    **{f"{name}f": _hyperbolic(name, "float") for name in ("sinh", "cosh")},
}
