"""Powers: ``pow`` as straight-line LLVM IR: e^(y log |x|), then C's special cases.

f64 has the logarithm as a sum of two numbers, to some 2^-65 of itself, which is what the largest exponents
need, and f32 has it so where f64 is slow; else f32 computes in f64. ``powi`` is that with an integer made a
float, or two.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpubuild.engine.mathlib.exp_log_f64 import near_one
from gpubuild.engine.mathlib.expressions import Real, Truth, quick_sum, two_sum
from gpubuild.engine.mathlib.hyperbolic import exp_of_sum, log_f64
from gpubuild.engine.mathlib.polynomials import INFINITY, Code, Maker, exp64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fits:
    """What differs between the types: coefficients, constants in parts, and the ends of what is normal."""

    atanh: tuple[float, ...]  # 2 atanh(s) = 2 s + s^3 (2/3 + s^2 P(s^2)): P, for |s| up to 0.172
    two_thirds: tuple[float, float]
    ln2: tuple[float, float]  # small multiples of the first one are exact
    normal: float
    raised: int  # denormals become normal by 2^this
    bounds: tuple[float, float, float]  # of e^x that counts: least, most, and in between


_FITS = {
    "double": _Fits(
        atanh=(
            0.4, 0.2857142857142857, 0.22222222222222157, 0.18181818181846748, 0.15384615378332372,
            0.13333334126357013, 0.11764645035055701, 0.10529197912887032, 0.09441738385572018,
            0.09972712353737948,
        ),
        two_thirds=(0.6666666666666666, 3.700743415417188e-17),
        ln2=(6.93147180369123816490e-01, 1.90821492927058770002e-10),
        normal=2.0**-1022,
        raised=54,
        bounds=(-746.0, 711.0, 800.0),
    ),
    "float": _Fits(
        atanh=(0.3999999761581421, 0.2857195734977722, 0.22181062400341034, 0.19527775049209595),
        two_thirds=(0.6666666865348816, -1.9868215517249155e-08),
        ln2=(0.693145751953125, 1.4286068203094172e-06),
        normal=2.0**-126,
        raised=24,
        bounds=(-105.0, 90.0, 110.0),
    ),
}  # fmt: skip
_LOW_BITS = 12  # of an integer, the rest of which is a float


def _logarithm_in_parts(x: Real) -> tuple[Real, Real]:
    """(high, low): log x for a positive finite number, to some 2^-65 (f32: 2^-35) of itself."""
    code, fits = x.code, _FITS[x.kind]
    tiny = x.is_("olt", fits.normal)
    name, exponent = near_one(code, tiny.pick(x * 2.0**fits.raised, x).name, x.kind)
    m = Real(code, name, x.kind)
    k = x.made(f"sitofp i32 {exponent} to {x.kind}")
    k = tiny.pick(k - float(fits.raised), k)
    f, g = m - 1.0, m + 1.0
    inverse = 1.0 / g
    s = f * inverse
    p, q = s.product(g)
    s_low = (((f - p) - q) - s * (m - (g - 1.0))) * inverse
    z, z_low = s.product(s)
    z_low = (s + s).fma(s_low, z_low)
    # w = 2/3 + z P, v = s z w
    t = z.poly(fits.atanh)
    p, q = z.product(t)
    w, w_low = quick_sum(p.constant(fits.two_thirds[0]), p)
    w_low = w_low + (z_low.fma(t, q) + fits.two_thirds[1])
    c, c_low = s.product(z)
    c_low = c_low + s.fma(z_low, s_low * z)
    v, v_low = c.product(w)
    v_low = v_low + c.fma(w_low, c_low * w)
    # k log 2 + 2 s + v
    high, a = quick_sum(k * fits.ln2[0], s + s)
    high, b = quick_sum(high, v)
    high, c = quick_sum(high, k * fits.ln2[1])
    return quick_sum(high, ((a + b) + c) + ((s_low + s_low) + v_low))


def _power(x: Real, y: Real, *, parts: bool, missed: Real | None = None, odd: Truth | None = None) -> Real:
    """x^y; without ``parts`` in f64 to some 2^-35, for what is rounded to f32.

    The exponent may be an integer that is ``y`` and ``missed``, of which is told whether it is ``odd``.
    """
    size = abs(x)
    if parts:
        high, low = _logarithm_in_parts(size)
        p, q = y.product(high)
        q = y.fma(low, q)
        if missed is not None:
            p, more = two_sum(p, missed * high)
            q = missed.fma(low, q) + (missed.fma(high, -(missed * high)) + more)
    else:
        p = y * log_f64(size)
    p = size.is_("oeq", 0.0).pick(y * -INFINITY, size.is_("oeq", INFINITY).pick(y * INFINITY, p))
    one = size.is_("oeq", 1.0)
    p = one.pick(0.0, p)
    if parts:
        least, most, between = _FITS[x.kind].bounds
        bounded = abs(p).is_("olt", between) & ~one
        result = exp_of_sum(p.least(most).most(least), bounded.pick(q, 0.0))
    else:
        result = Real(x.code, exp64(x.code, p.least(120.0).most(-120.0).name))
    if odd is not None:
        result = (x.is_negative() & odd).pick(-result, result)
        result = x.is_("uno", 0.0).pick(x, result)
    else:
        whole = y.whole_part()
        half = y * 0.5
        integer = whole.is_("oeq", y)
        odd = integer & half.whole_part().is_("one", half)
        result = (x.is_negative() & odd).pick(-result, result)
        invalid = x.is_("olt", 0.0) & x.is_("one", -INFINITY) & ~integer
        result = (invalid | x.is_("uno", y)).pick(float("nan"), result)
    return (x.is_("oeq", 1.0) | y.is_("oeq", 0.0)).pick(1.0, result)


def _make_f64(code: Code) -> str:
    return _power(Real(code, "%0"), Real(code, "%1"), parts=True).name


def _make_f32(code: Code) -> str:
    x, y = (Real(code, name, "float").wide() for name in ("%0", "%1"))
    return _power(x, y, parts=False).narrow().name


def _make_integer_f64(code: Code) -> str:
    return _power(Real(code, "%0"), _integer(code), parts=True).name


def _make_integer_f32(code: Code) -> str:
    return _power(Real(code, "%0", "float").wide(), _integer(code), parts=False).narrow().name


def _integer(code: Code) -> Real:
    return Real(code, code.value("sitofp i32 %1 to double"))


def _make_single(code: Code) -> str:
    return _power(Real(code, "%0", "float"), Real(code, "%1", "float"), parts=True).name


def _make_integer_single(code: Code) -> str:
    x = Real(code, "%0", "float")
    low = code.value(f"srem i32 %1, {1 << _LOW_BITS}")
    high = code.value(f"sub i32 %1, {low}")
    odd = Truth(code, code.value("trunc i32 %1 to i1"))
    y, missed = (x.made(f"sitofp i32 {part} to float") for part in (high, low))
    small = y.is_("oeq", 0.0)  # then the low part is the larger one
    y, missed = small.pick(missed, y), small.pick(0.0, missed)
    return _power(x, y, parts=True, missed=missed, odd=odd).name


F32: dict[str, Maker] = {"powf": _make_f32, "powif": _make_integer_f32}
F64: dict[str, Maker] = {"pow": _make_f64, "powi": _make_integer_f64}
SINGLE: dict[str, Maker] = {"powf": _make_single, "powif": _make_integer_single}
