"""Powers: ``pow`` as straight-line LLVM IR: e^(y log |x|), then C's special cases.

f32 computes in f64. f64 has the logarithm as a sum of two numbers, to some 2^-65 of itself, which is what the
largest exponents need; ``powi`` is that with an integer made a float.
"""

from __future__ import annotations

from gpubuild.engine.cpu.doubles import near_one
from gpubuild.engine.cpu.hyperbolics import exp_f64
from gpubuild.engine.cpu.polynomials import INFINITY, LN2, NAN, Code, Maker, exp64, log_near_one, rounded
from gpubuild.engine.cpu.reals import Real, quick_sum

_KIND = "double"


def _power(code: Code) -> str:
    x = code.value("fpext float %0 to double")
    y = code.value("fpext float %1 to double")
    code.declarations.add("declare double @llvm.fabs.f64(double)")
    size = code.value(f"call double @llvm.fabs.f64(double {x})")
    exponent = code.f("fmul", y, _logarithm(code, size), _KIND)
    exponent = code.select("oeq", size, 1.0, code.number(0.0, _KIND), exponent, _KIND)
    exponent = code.select("ogt", exponent, 120.0, code.number(120.0, _KIND), exponent, _KIND)
    exponent = code.select("olt", exponent, -120.0, code.number(-120.0, _KIND), exponent, _KIND)
    result = rounded(code, exp64(code, exponent))

    whole, odd = _whole_and_odd(code, y)
    minus = code.value(f"fneg float {result}")
    below = code.value(f"icmp slt i32 {code.value('bitcast float %0 to i32')}, 0")
    negated = code.value(f"and i1 {below}, {odd}")
    result = code.value(f"select i1 {negated}, float {minus}, float {result}")
    finite = code.value(f"fcmp one float %0, {code.number(-INFINITY, 'float')}")
    less = code.value(f"fcmp olt float %0, {code.number(0.0, 'float')}")
    broken = code.value(f"xor i1 {whole}, true")
    invalid = code.value(f"and i1 {code.value(f'and i1 {less}, {finite}')}, {broken}")
    either = code.value("fcmp uno float %0, %1")
    invalid = code.value(f"or i1 {invalid}, {either}")
    result = code.value(f"select i1 {invalid}, float {NAN}, float {result}")
    one = code.number(1.0, "float")
    result = code.select("oeq", "%0", 1.0, one, result, "float")
    return code.select("oeq", "%1", 0.0, one, result, "float")


def _logarithm(code: Code, size: str) -> str:
    """Of a positive double that is no denormal, of zero, or of infinity; NaN gives anything."""
    m, exponent = near_one(code, size)
    log = log_near_one(code, code.f("fsub", m, code.number(1.0, _KIND), _KIND))
    k = code.value(f"sitofp i32 {exponent} to double")
    log = code.fma(k, code.number(LN2, _KIND), log, _KIND)
    log = code.select("oeq", size, 0.0, code.number(-INFINITY, _KIND), log, _KIND)
    return code.select("oeq", size, INFINITY, size, log, _KIND)


def _whole_and_odd(code: Code, y: str) -> tuple[str, str]:
    """Whether ``y`` is an integer, and an odd one; infinities and what is 2^24 or more are even."""
    near = code.select("olt", y, 2.0**25, y, code.number(2.0**25, _KIND), _KIND)
    near = code.select("ogt", near, -(2.0**25), near, code.number(-(2.0**25), _KIND), _KIND)
    number = code.value(f"fptosi double {near} to i32")
    back = code.value(f"sitofp i32 {number} to double")
    whole = code.value(f"fcmp oeq double {back}, {near}")
    bit = code.value(f"icmp ne i32 {code.value(f'and i32 {number}, 1')}, 0")
    return whole, code.value(f"and i1 {whole}, {bit}")


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


def _power_f64(code: Code) -> str:
    return _power_of(Real(code, "%0"), Real(code, "%1")).name


def _integer_power_f64(code: Code) -> str:
    return _power_of(Real(code, "%0"), Real(code, code.value("sitofp i32 %1 to double"))).name


def _integer_power_f32(code: Code) -> str:
    x, y = Real(code, "%0", "float").wide(), Real(code, code.value("sitofp i32 %1 to double"))
    return _power_of(x, y).narrow().name


def _power_of(x: Real, y: Real) -> Real:
    size = abs(x)
    high, low = _logarithm_in_parts(size)
    p, q = y.product(high)
    q = y.fma(low, q)
    p = size.is_("oeq", 0.0).pick(y * -INFINITY, size.is_("oeq", INFINITY).pick(y * INFINITY, p))
    one = size.is_("oeq", 1.0)
    p = one.pick(0.0, p)
    bounded = abs(p).is_("olt", 800.0) & ~one
    result = exp_f64(p.least(711.0).most(-746.0), bounded.pick(q, 0.0))
    whole = y.whole_part()
    half = y * 0.5
    integer = whole.is_("oeq", y)
    odd = integer & half.whole_part().is_("one", half)
    result = (x.is_negative() & odd).pick(-result, result)
    invalid = x.is_("olt", 0.0) & x.is_("one", -INFINITY) & ~integer
    result = (invalid | x.is_("uno", y)).pick(float("nan"), result)
    return (x.is_("oeq", 1.0) | y.is_("oeq", 0.0)).pick(1.0, result)


F32: dict[str, Maker] = {"powf": _power, "powif": _integer_power_f32}
F64: dict[str, Maker] = {"pow": _power_f64, "powi": _integer_power_f64}
