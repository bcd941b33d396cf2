"""Inverse trigonometry: ``atan``, ``atan2``, ``asin``, ``acos`` of f32 (in f64, rounded once) and f64.

An arc tangent is taken of something up to tan(pi/8), after a turn by pi/4 and one to the other axis, with one
division; an arc sine above 1/2 is that of a root. Coefficients: minimax fits in the square of the argument,
the leading x left out; bounds on errors are in docs/cpu.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gpubuild.engine.mathlib.expressions import Real, Truth, quick_sum
from gpubuild.engine.mathlib.polynomials import INFINITY, Code, Maker

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fits:
    """What differs between f32 and f64: coefficients, and whether second parts of numbers count."""

    atan: tuple[float, ...]
    asin: tuple[float, ...]
    exact: bool
    quarter: tuple[float, float] = _QUARTER
    endless: float = 2.0**500  # whose arc tangent is that of infinity
    scaled: tuple[float, float] = (2.0**900, 2.0**150)  # from where on quotients are scaled, and by what


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
    """``quarters`` * pi / 4 + ``large`` + ``small``; quarters is zero or the largest."""
    base = quarters * fits.quarter[0]
    if not fits.exact:
        return base + (large + small)
    high, low = quick_sum(base, large)
    return high + (quarters.fma(fits.quarter[1], small) + low)


def _quotient(fits: _Fits, top: tuple[Real, Real], bottom: tuple[Real, Real]) -> tuple[Real, Real]:
    """(u, a little): the first parts' quotient, and what it misses."""
    if not fits.exact:
        return top[0] / bottom[0], top[1]
    u = top[0] / bottom[0]
    high, low = u.product(bottom[0])
    return u, (((top[0] - high) - low) + (top[1] - u * bottom[1])) / bottom[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Angle:
    """quarters * pi / 4 + large + small."""

    quarters: Real
    large: Real
    small: Real

    def mirrored(self, test: Truth, quarters: float) -> _Angle:
        """``quarters`` * pi / 4 minus it where ``test`` holds."""
        return _Angle(
            quarters=test.pick(quarters - self.quarters, self.quarters),
            large=test.pick(-self.large, self.large),
            small=test.pick(-self.small, self.small),
        )


def _first_octant(fits: _Fits, least: Real, most: Real) -> _Angle:
    """The angle of (``most``, ``least``), 0 <= least <= most: pi/4 for two infinities, 0 for two zeros."""
    same = least.is_("oeq", most)
    large = least.is_("ogt", most * _EIGHTH) | (same & most.is_("ogt", 0.0))
    minus, plus = quick_sum(-most, least), quick_sum(most, least)
    top = (large.pick(minus[0], least), large.pick(minus[1], 0.0))
    bottom = (large.pick(plus[0], most), large.pick(plus[1], 0.0))
    quotient, missed = _quotient(fits, top, bottom)
    u = same.pick(0.0, quotient)
    z = u * u
    small = (z * u) * z.poly(fits.atan)
    if fits.exact:
        counts = bottom[0].is_("olt", INFINITY) & top[0].is_("one", 0.0)
        small = small + counts.pick(missed - missed * z, 0.0)
    return _Angle(quarters=large.pick(most.constant(1.0), 0.0), large=u, small=small)


def _atan(fits: _Fits, x: Real) -> Real:
    size = abs(x).least(fits.endless)
    steep = size.is_("ogt", 1.0)
    angle = _first_octant(fits, steep.pick(1.0, size), steep.pick(size, 1.0)).mirrored(steep, 2.0)
    return _sum(fits, angle.quarters, angle.large, angle.small).with_sign(x)


def _atan2(fits: _Fits, y: Real, x: Real) -> Real:
    up, across = abs(y), abs(x)
    if fits.exact:  # their sum must not overflow; what is lost of the smaller one does not count
        end, factor = fits.scaled
        huge = up.is_("ogt", end) | across.is_("ogt", end)
        tiny = up.is_("olt", 1 / end) & across.is_("olt", 1 / end)
        up, across = (huge.pick(v * (1 / factor), tiny.pick(v * factor, v)) for v in (up, across))
    steep = up.is_("ogt", across)
    angle = _first_octant(fits, steep.pick(across, up), steep.pick(up, across))
    angle = angle.mirrored(steep, 2.0).mirrored(x.is_negative(), 4.0)
    result = _sum(fits, angle.quarters, angle.large, angle.small).with_sign(y)
    return y.is_("uno", x).pick(x + y, result)


def _arc(fits: _Fits, x: Real, *, cosine: bool) -> Real:
    size = abs(x)
    far = size.is_("ogt", 0.5)
    z = far.pick((1.0 - size) * 0.5, size * size)
    s = far.pick(z.root(), size)
    small = (z * s) * z.poly(fits.asin)
    large, small = far.pick(s + s, s), far.pick(small + small, small)
    two, none = x.constant(2.0), x.constant(0.0)
    if not cosine:
        quarters = far.pick(two, none)
        return _sum(fits, quarters, far.pick(-large, large), far.pick(-small, small)).with_sign(x)
    # near: pi/2 - asin x; far: twice the arc sine, or pi minus that
    quarters = far.pick(x.is_negative().pick(x.constant(4.0), none), two)
    sign = far.pick(x, -x)
    return _sum(fits, quarters, large.with_sign(sign), small.with_sign(sign))


_UNARY: dict[str, Callable[[_Fits, Real], Real]] = {
    "atan": _atan,
    "asin": partial(_arc, cosine=False),
    "acos": partial(_arc, cosine=True),
}


def _maker_f32(function: Callable[..., Real], count: int) -> Maker:
    def make(code: Code) -> str:
        wide = [Real(code, f"%{i}", "float").wide() for i in range(count)]
        return function(_FITS["f32"], *wide).narrow().name

    return make


def _maker(fits: str, kind: str, function: Callable[..., Real], count: int) -> Maker:
    def make(code: Code) -> str:
        return function(_FITS[fits], *(Real(code, f"%{i}", kind) for i in range(count))).name

    return make


F32: dict[str, Maker] = {
    **{f"{name}f": _maker_f32(function, 1) for name, function in _UNARY.items()},
    "atan2f": _maker_f32(_atan2, 2),
}
F64: dict[str, Maker] = {
    **{name: _maker("f64", "double", function, 1) for name, function in _UNARY.items()},
    "atan2": _maker("f64", "double", _atan2, 2),
}
SINGLE: dict[str, Maker] = {
    **{f"{name}f": _maker("single", "float", function, 1) for name, function in _UNARY.items()},
    "atan2f": _maker("single", "float", _atan2, 2),
}
