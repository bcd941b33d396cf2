"""Roots: ``cbrt`` of f32 and f64, by a guess from the bits and Halley's steps.

f64: the last step adds what an exact cube misses, so that little more than its own rounding is lost.
Bounds on errors are in docs/cpu.md.
"""

from __future__ import annotations

from gpubuild.engine.mathlib.expressions import Real
from gpubuild.engine.mathlib.polynomials import INFINITY, Code, Maker

_GUESS_F32 = 709958130
_GUESS = 715094163  # a third of the bias of exponents, in the upper half's units, with the least error


def _guess(x: Real) -> Real:
    """The cube root of a positive normal number, to 5 %."""
    code = x.code
    if x.kind == "float":
        third = code.value(f"udiv i32 {x.bits()}, 3")
        return x.made(f"bitcast i32 {code.value(f'add i32 {third}, {_GUESS_F32}')} to float")
    upper = code.value(f"trunc i64 {code.value(f'lshr i64 {x.bits()}, 32')} to i32")
    third = code.value(f"add i32 {code.value(f'udiv i32 {upper}, 3')}, {_GUESS}")
    bits = code.value(f"shl i64 {code.value(f'zext i32 {third} to i64')}, 32")
    return x.made(f"bitcast i64 {bits} to double")


def _step(t: Real, x: Real) -> Real:
    """Halley's: the error becomes two thirds of its cube."""
    cube = t * t * t
    return t * ((cube + x + x) / (cube + cube + x))


def _special(x: Real, root: Real) -> Real:
    """Zeros, infinities and NaN are their own roots."""
    ordinary = abs(x).is_("olt", INFINITY) & x.is_("one", 0.0)
    return ordinary.pick(root.with_sign(x), x)


def _cbrt_f32(code: Code) -> str:
    x = Real(code, "%0", "float").wide()
    size = abs(x)
    root = _step(_step(_guess(size), size), size)
    return _special(x, root).narrow().name


def _cbrt(x: Real, end: int, steps: int) -> Real:
    """Cubes and their low parts must be normal: what is beyond 2^``end`` is scaled by 2^(3 ``steps``)."""
    size = abs(x)
    small = size.is_("olt", 2.0**-end)
    large = size.is_("ogt", 2.0**end)
    up, down = 2.0 ** (3 * steps), 2.0 ** (-3 * steps)
    scaled = small.pick(size * up, large.pick(size * down, size))
    t = _step(_step(_guess(scaled), scaled), scaled)
    square, square_low = t.product(t)
    cube, cube_low = square.product(t)
    cube_low = square_low.fma(t, cube_low)
    root = t - ((cube - scaled) + cube_low) / (square * 3.0)
    root = small.pick(root * 2.0**-steps, large.pick(root * 2.0**steps, root))
    return _special(x, root)


def _cbrt_f64(code: Code) -> str:
    return _cbrt(Real(code, "%0"), 960, 100).name


def _cbrt_single(code: Code) -> str:
    return _cbrt(Real(code, "%0", "float"), 90, 20).name


F32: dict[str, Maker] = {"cbrtf": _cbrt_f32}
F64: dict[str, Maker] = {"cbrt": _cbrt_f64}
SINGLE: dict[str, Maker] = {"cbrtf": _cbrt_single}
