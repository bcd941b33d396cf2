"""Powers and cube roots: ``pow``, ``powi`` and ``cbrt`` of f32 and f64.

x^y is e^(y log |x|), then C's special cases. The logarithm of f64 is a sum of two numbers, to some 2^-65
of itself, which the largest exponents need. f32 computes in f64, or where f64 is slow with such a sum.
``cbrt`` begins with a guess from the bits, which Halley's steps improve; in f64 the last step adds what an
exact cube misses. docs/explanation/cpu.md has bounds on errors.
"""

from __future__ import annotations

from functools import partial

from gpubuild.engine.mathlib.exp_log import LN2_F32, exp_short, log_short, near_one
from gpubuild.engine.mathlib.expressions import (
    INFINITY,
    NAN,
    Condition,
    Function,
    Real,
    in_f64,
    quick_sum,
    two_sum,
)
from gpubuild.engine.mathlib.hyperbolic import exp_of_sum
from gpubuild.support.frozen import frozen


@frozen
class _Fits:
    """Values that differ between the types: coefficients, constants in parts, and bounds."""

    atanh: tuple[float, ...]  # 2 atanh(s) = 2 s + s^3 (2/3 + s^2 P(s^2)): P, for |s| up to 0.172
    two_thirds: tuple[float, float]
    ln2: tuple[float, float]  # small multiples of the first one are exact
    normal: float
    raised: int  # denormals become normal by 2^this
    bounds: tuple[float, float, float]  # of x in e^x: least, most, and where the second part counts


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
        ln2=LN2_F32,
        normal=2.0**-126,
        raised=24,
        bounds=(-105.0, 90.0, 110.0),
    ),
}  # fmt: skip
_LOW_BITS = 12  # of an integer; the others fit a float
_GUESS_F32 = 709958130
_GUESS = 715094163  # a third of the bias of exponents, in the upper half's units, with the least error


def _logarithm_in_parts(x: Real) -> tuple[Real, Real]:
    """Return (high, low), log x for a positive finite number, to some 2^-65 (f32: 2^-35) of itself."""
    fits = _FITS[x.kind]
    tiny = x.compare("olt", fits.normal)
    m, exponent = near_one(tiny.select(x * 2.0**fits.raised, x))
    k = x.emit(f"sitofp i32 {exponent} to {x.kind}")
    k = tiny.select(k - float(fits.raised), k)
    f, g = m - 1.0, m + 1.0
    inverse = 1.0 / g
    s = f * inverse
    p, q = s.product(g)
    s_low = (((f - p) - q) - s * (m - (g - 1.0))) * inverse
    z, z_low = s.product(s)
    z_low = (s + s).fma(s_low, z_low)
    # w = 2/3 + z P, v = s z w
    t = z.polynomial(fits.atanh)
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


def _power(
    x: Real, y: Real, *, parts: bool, missed: Real | None = None, odd: Condition | None = None
) -> Real:
    """Return x^y; without ``parts`` in f64 to some 2^-35, to be rounded to f32.

    The exponent may be an integer that is ``y`` and ``missed``, and ``odd`` its lowest bit.
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
        p = y * log_short(size)
    p = size.compare("oeq", 0.0).select(y * -INFINITY, size.compare("oeq", INFINITY).select(y * INFINITY, p))
    one = size.compare("oeq", 1.0)
    p = one.select(0.0, p)
    if parts:
        least, most, between = _FITS[x.kind].bounds
        bounded = abs(p).compare("olt", between) & ~one
        result = exp_of_sum(p.at_most(most).at_least(least), bounded.select(q, 0.0))
    else:
        result = exp_short(p.at_most(120.0).at_least(-120.0))
    if odd is not None:
        result = (x.is_negative() & odd).select(-result, result)
        result = x.compare("uno", 0.0).select(x, result)
    else:
        whole = y.truncate()
        half = y * 0.5
        integer = whole.compare("oeq", y)
        odd = integer & half.truncate().compare("one", half)
        result = (x.is_negative() & odd).select(-result, result)
        invalid = x.compare("olt", 0.0) & x.compare("one", -INFINITY) & ~integer
        result = (invalid | x.compare("uno", y)).select(NAN, result)
    return (x.compare("oeq", 1.0) | y.compare("oeq", 0.0)).select(1.0, result)


def _power_of_integer(x: Real, exponent: str, *, parts: bool) -> Real:
    return _power(x, Real(x.code, x.code.value(f"sitofp i32 {exponent} to double")), parts=parts)


def _power_of_integer_f32(x: Real, exponent: str) -> Real:
    return _power_of_integer(x.wide(), exponent, parts=False).narrow()


def _power_of_integer_single(x: Real, exponent: str) -> Real:
    code = x.code
    low = code.value(f"srem i32 {exponent}, {1 << _LOW_BITS}")
    high = code.value(f"sub i32 {exponent}, {low}")
    odd = Condition(code, code.value(f"trunc i32 {exponent} to i1"))
    y, missed = (x.emit(f"sitofp i32 {part} to float") for part in (high, low))
    small = y.compare("oeq", 0.0)  # then the low part is the larger one
    y, missed = small.select(missed, y), small.select(0.0, missed)
    return _power(x, y, parts=True, missed=missed, odd=odd)


def _guess(x: Real) -> Real:
    """Return the cube root of a positive normal number, to 5 %."""
    code = x.code
    if x.kind == "float":
        third = code.value(f"udiv i32 {x.bits()}, 3")
        return x.emit(f"bitcast i32 {code.value(f'add i32 {third}, {_GUESS_F32}')} to float")
    upper = code.value(f"trunc i64 {code.value(f'lshr i64 {x.bits()}, 32')} to i32")
    third = code.value(f"add i32 {code.value(f'udiv i32 {upper}, 3')}, {_GUESS}")
    bits = code.value(f"shl i64 {code.value(f'zext i32 {third} to i64')}, 32")
    return x.emit(f"bitcast i64 {bits} to double")


def _step(t: Real, x: Real) -> Real:
    """Improve a cube root by Halley's method: the error becomes two thirds of its cube."""
    cube = t * t * t
    return t * ((cube + x + x) / (cube + cube + x))


def _root_special(x: Real, root: Real) -> Real:
    """Give ``root`` its sign. Zeros, infinities and NaN are their own roots."""
    ordinary = abs(x).compare("olt", INFINITY) & x.compare("one", 0.0)
    return ordinary.select(root.with_sign(x), x)


def _positive(x: Real) -> Real:
    """Return |x|, and 1 for 0, whose cube of a guess would be denormal: CPUs take 30 times as long."""
    return x.compare("oeq", 0.0).select(1.0, abs(x))


def _cbrt_f32(x: Real) -> Real:
    size = _positive(x)
    return _root_special(x, _step(_step(_guess(size), size), size))


def _cbrt(x: Real) -> Real:
    # Cubes and their low parts must be normal: numbers beyond 2^end are scaled by 2^(3 steps).
    end, steps = (960, 100) if x.kind == "double" else (90, 20)
    size = _positive(x)
    small = size.compare("olt", 2.0**-end)
    large = size.compare("ogt", 2.0**end)
    up, down = 2.0 ** (3 * steps), 2.0 ** (-3 * steps)
    scaled = small.select(size * up, large.select(size * down, size))
    t = _step(_step(_guess(scaled), scaled), scaled)
    square, square_low = t.product(t)
    cube, cube_low = square.product(t)
    cube_low = square_low.fma(t, cube_low)
    root = t - ((cube - scaled) + cube_low) / (square * 3.0)
    root = small.select(root * 2.0**-steps, large.select(root * 2.0**steps, root))
    return _root_special(x, root)


_IN_PARTS = partial(_power, parts=True)
F32: dict[str, Function] = {
    "powf": in_f64(partial(_power, parts=False)),
    "powif": _power_of_integer_f32,
    "cbrtf": in_f64(_cbrt_f32),
}
F64: dict[str, Function] = {
    "pow": _IN_PARTS,
    "powi": partial(_power_of_integer, parts=True),
    "cbrt": _cbrt,
}
SINGLE: dict[str, Function] = {"powf": _IN_PARTS, "powif": _power_of_integer_single, "cbrtf": _cbrt}
NEED_FUSED = {"pow", "powf", "powi", "powif"}
