"""Inverse trigonometric functions ``atan``, ``atan2``, ``asin``, ``acos`` of f32 and f64.

Arc tangents are computed of numbers up to tan(pi/8), after a turn by pi/4 and one to the other axis, with
one division; an arc sine above 1/2 is that of a root. f32 computes in f64, or where f64 is slow in f32
(``SINGLE``). Coefficients are minimax fits in the square of the argument, without the leading x;
docs/explanation/cpu.md has bounds on errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpubuild.engine.mathlib.expressions import INFINITY, Condition, Function, Real, in_f64, quick_sum
from gpubuild.support.frozen import frozen

_ATAN_F32 = (-0.3333333329631246, 0.19999994394064738, -0.14285426202478851, 0.11104048869896439,
             -0.08997235801538626, 0.06992926083251341, -0.03795313431487493)  # fmt: skip
_ATAN_F64 = (
    -0.33333333333333326, 0.19999999999997684, -0.1428571428539007, 0.11111111088311725, -0.0909090814951143,
    0.07692282874025527, -0.06666228493621323, 0.05877039069877514, -0.052185170696476955,
    0.045040129630517074, -0.03348535963888029, 0.01520632825313353,
)  # fmt: skip
_ASIN_F32 = (
    0.1666666666970833, 0.07499999524043542, 0.04464311317007493, 0.03037521751961021, 0.022471499876734136,
    0.016476348913502244, 0.01863625518275576, -0.0028716068917430046, 0.031971947787615126,
)  # fmt: skip
_ASIN_F64 = (
    0.16666666666666669, 0.07499999999999783, 0.04464285714316583, 0.030381944422140768, 0.022372160049244087,
    0.01735273766513928, 0.013965356071824501, 0.011544847384987433, 0.009829791575066889,
    0.007903776596704276, 0.00982920891372177, -0.0028190435860217847, 0.02908544247399831,
    -0.03192903119470925, 0.03501958605919286,
)  # fmt: skip
# To 2^-30 and 2^-32
_ATAN_SINGLE = (-0.33333316445350647, 0.1999853253364563, -0.14244507253170013, 0.10600116848945618,
                -0.060925181955099106)  # fmt: skip
_ASIN_SINGLE = (0.16666659712791443, 0.0750051811337471, 0.044514577835798264, 0.031825870275497437,
                0.014374789781868458, 0.03760066255927086)  # fmt: skip
# pi / 4; small multiples of the first part are exact
_QUARTER = (0.7853981633974483, 3.061616997868383e-17)
_QUARTER_SINGLE = (0.785398006439209, 1.5695823663008923e-07)
_EIGHTH = 0.41421356237309503  # tan(pi/8)


@frozen
class _Fits:
    """Values that differ between the types: coefficients, and whether second parts of numbers count."""

    atan: tuple[float, ...]
    asin: tuple[float, ...]
    exact: bool
    quarter: tuple[float, float] = _QUARTER
    endless: float = 2.0**500  # its arc tangent is that of infinity
    scaled: tuple[float, float] = (
        2.0**900,
        2.0**150,
    )  # the bound beyond which quotients are scaled, and the factor


_FITS = {
    "f32": _Fits(atan=_ATAN_F32, asin=_ASIN_F32, exact=False),
    "f64": _Fits(atan=_ATAN_F64, asin=_ASIN_F64, exact=True),
    "single": _Fits(
        atan=_ATAN_SINGLE,
        asin=_ASIN_SINGLE,
        exact=True,
        quarter=_QUARTER_SINGLE,
        endless=2.0**60,
        scaled=(2.0**90, 2.0**40),
    ),
}


def _sum(fits: _Fits, quarters: Real, large: Real, small: Real) -> Real:
    """Return ``quarters`` * pi / 4 + ``large`` + ``small``, where ``quarters`` is zero or the largest."""
    base = quarters * fits.quarter[0]
    if not fits.exact:
        return base + (large + small)
    high, low = quick_sum(base, large)
    return high + (quarters.fma(fits.quarter[1], small) + low)


def _quotient(fits: _Fits, top: tuple[Real, Real], bottom: tuple[Real, Real]) -> tuple[Real, Real]:
    """Return (u, e): the quotient of the first parts, and the rest of the exact quotient."""
    if not fits.exact:
        return top[0] / bottom[0], top[1]
    u = top[0] / bottom[0]
    high, low = u.product(bottom[0])
    return u, (((top[0] - high) - low) + (top[1] - u * bottom[1])) / bottom[0]


@frozen
class _Angle:
    """The angle quarters * pi / 4 + large + small."""

    quarters: Real
    large: Real
    small: Real

    def mirrored(self, test: Condition, quarters: float) -> _Angle:
        """Return ``quarters`` * pi / 4 minus this angle where ``test`` holds."""
        return _Angle(
            quarters=test.select(quarters - self.quarters, self.quarters),
            large=test.select(-self.large, self.large),
            small=test.select(-self.small, self.small),
        )


def _first_octant(fits: _Fits, least: Real, most: Real) -> _Angle:
    """Return the angle of (most, least), 0 <= least <= most: pi/4 for two infinities, 0 for two zeros."""
    same = least.compare("oeq", most)
    large = least.compare("ogt", most * _EIGHTH) | (same & most.compare("ogt", 0.0))
    minus, plus = quick_sum(-most, least), quick_sum(most, least)
    top = (large.select(minus[0], least), large.select(minus[1], 0.0))
    bottom = (large.select(plus[0], most), large.select(plus[1], 0.0))
    quotient, missed = _quotient(fits, top, bottom)
    u = same.select(0.0, quotient)
    z = u * u
    small = (z * u) * z.polynomial(fits.atan)
    if fits.exact:
        counts = bottom[0].compare("olt", INFINITY) & top[0].compare("one", 0.0)
        small = small + counts.select(missed - missed * z, 0.0)
    return _Angle(quarters=large.select(most.constant(1.0), 0.0), large=u, small=small)


def _atan(fits: _Fits, x: Real) -> Real:
    size = abs(x).at_most(fits.endless)
    steep = size.compare("ogt", 1.0)
    angle = _first_octant(fits, steep.select(1.0, size), steep.select(size, 1.0)).mirrored(steep, 2.0)
    return _sum(fits, angle.quarters, angle.large, angle.small).with_sign(x)


def _atan2(fits: _Fits, y: Real, x: Real) -> Real:
    up, across = abs(y), abs(x)
    if fits.exact:  # their sum must not overflow; the lost digits of the smaller one do not count
        end, factor = fits.scaled
        huge = up.compare("ogt", end) | across.compare("ogt", end)
        tiny = up.compare("olt", 1 / end) & across.compare("olt", 1 / end)
        up, across = (huge.select(v * (1 / factor), tiny.select(v * factor, v)) for v in (up, across))
    steep = up.compare("ogt", across)
    angle = _first_octant(fits, steep.select(across, up), steep.select(up, across))
    angle = angle.mirrored(steep, 2.0).mirrored(x.is_negative(), 4.0)
    result = _sum(fits, angle.quarters, angle.large, angle.small).with_sign(y)
    return y.compare("uno", x).select(x + y, result)


def _arc(fits: _Fits, x: Real, *, cosine: bool) -> Real:
    size = abs(x)
    far = size.compare("ogt", 0.5)
    z = far.select((1.0 - size) * 0.5, size * size)
    s = far.select(z.sqrt(), size)
    small = (z * s) * z.polynomial(fits.asin)
    large, small = far.select(s + s, s), far.select(small + small, small)
    two, none = x.constant(2.0), x.constant(0.0)
    if not cosine:
        quarters = far.select(two, none)
        return _sum(fits, quarters, far.select(-large, large), far.select(-small, small)).with_sign(x)
    # near: pi/2 - asin x; far: twice the arc sine, or pi minus that
    quarters = far.select(x.is_negative().select(x.constant(4.0), none), two)
    sign = far.select(x, -x)
    return _sum(fits, quarters, large.with_sign(sign), small.with_sign(sign))


_FUNCTIONS: dict[str, Callable[..., Real]] = {
    "atan": _atan,
    "asin": partial(_arc, cosine=False),
    "acos": partial(_arc, cosine=True),
    "atan2": _atan2,
}
F32: dict[str, Function] = {
    f"{name}f": in_f64(partial(function, _FITS["f32"])) for name, function in _FUNCTIONS.items()
}
F64: dict[str, Function] = {name: partial(function, _FITS["f64"]) for name, function in _FUNCTIONS.items()}
SINGLE: dict[str, Function] = {
    f"{name}f": partial(function, _FITS["single"]) for name, function in _FUNCTIONS.items()
}
