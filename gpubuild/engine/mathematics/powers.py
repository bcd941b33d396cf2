"""Powers: ``pow`` as straight-line LLVM IR: e^(y log |x|), then C's special cases.

f32 computes in f64. f64 has the logarithm as a sum of two numbers, to some 2^-65 of itself, which is what the
largest exponents need; ``powi`` is that with an integer made a float.
"""

from __future__ import annotations

from gpubuild.engine.mathematics.doubles import near_one
from gpubuild.engine.mathematics.hyperbolics import exp_f64, log_f64
from gpubuild.engine.mathematics.polynomials import INFINITY, Code, Maker, exp64
from gpubuild.engine.mathematics.reals import Real, quick_sum

# 2 atanh(s) = 2 s + s^3 (2/3 + s^2 P(s^2)): P, for |s| up to 0.172
_ATANH = (
    0.4, 0.2857142857142857, 0.22222222222222157, 0.18181818181846748, 0.15384615378332372,
    0.13333334126357013, 0.11764645035055701, 0.10529197912887032, 0.09441738385572018, 0.09972712353737948,
)  # fmt: skip
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_LN2_PARTS = (6.93147180369123816490e-01, 1.90821492927058770002e-10)  # the first one has 33 bits


def _logarithm_in_parts(x: Real) -> tuple[Real, Real]:
    """(high, low): log x for a positive finite number."""
    code = x.code
    tiny = x.is_("olt", 2.0**-1022)
    name, exponent = near_one(code, tiny.pick(x * 2.0**54, x).name)
    m = Real(code, name)
    k = Real(code, code.value(f"sitofp i32 {exponent} to double"))
    k = tiny.pick(k - 54.0, k)
    f, g = m - 1.0, m + 1.0
    inverse = 1.0 / g
    s = f * inverse
    p, q = s.product(g)
    s_low = (((f - p) - q) - s * (m - (g - 1.0))) * inverse
    z, z_low = s.product(s)
    z_low = (s + s).fma(s_low, z_low)
    # w = 2/3 + z P, v = s z w
    t = z.poly(_ATANH)
    p, q = z.product(t)
    w, w_low = quick_sum(p.constant(_TWO_THIRDS[0]), p)
    w_low = w_low + (z_low.fma(t, q) + _TWO_THIRDS[1])
    c, c_low = s.product(z)
    c_low = c_low + s.fma(z_low, s_low * z)
    v, v_low = c.product(w)
    v_low = v_low + c.fma(w_low, c_low * w)
    # k log 2 + 2 s + v
    high, a = quick_sum(k * _LN2_PARTS[0], s + s)
    high, b = quick_sum(high, v)
    high, c = quick_sum(high, k * _LN2_PARTS[1])
    return quick_sum(high, ((a + b) + c) + ((s_low + s_low) + v_low))


def _power(x: Real, y: Real, *, parts: bool) -> Real:
    """x^y in f64; without ``parts`` to some 2^-35, for what is rounded to f32."""
    size = abs(x)
    if parts:
        high, low = _logarithm_in_parts(size)
        p, q = y.product(high)
        q = y.fma(low, q)
    else:
        p = y * log_f64(size)
    p = size.is_("oeq", 0.0).pick(y * -INFINITY, size.is_("oeq", INFINITY).pick(y * INFINITY, p))
    one = size.is_("oeq", 1.0)
    p = one.pick(0.0, p)
    if parts:
        bounded = abs(p).is_("olt", 800.0) & ~one
        result = exp_f64(p.least(711.0).most(-746.0), bounded.pick(q, 0.0))
    else:
        result = Real(x.code, exp64(x.code, p.least(120.0).most(-120.0).name))
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


F32: dict[str, Maker] = {"powf": _make_f32, "powif": _make_integer_f32}
F64: dict[str, Maker] = {"pow": _make_f64, "powi": _make_integer_f64}
