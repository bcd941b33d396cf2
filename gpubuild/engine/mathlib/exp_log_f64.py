"""Doubles: exponentials and logarithms of f64 as straight-line LLVM IR, with fused multiply-add.

Worst errors, in units in the last place, of the tests' values: ``exp``, ``exp2`` below 0.8, denormal
results included; ``log``, ``log2``, ``log10`` below 0.9. Special values are those of C's functions.
The logarithm's coefficients are fdlibm's, with an error below 2^-58; the exponential's are Taylor's.
"""

from __future__ import annotations

from math import factorial

from gpubuild.engine.mathlib.expressions import Real, Truth, quick_sum, two_sum
from gpubuild.engine.mathlib.polynomials import INFINITY, LN2, NAN, ROUND_F64, Code, Maker

_KIND = "double"
_LN2_LOW = 2.3190468138462996e-17  # ln 2 is LN2 + this
_LAST = 13  # 0.35^14 / 14! is below 2^-57
_LOG = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of the root of 1/2
_HALF_ROOT_F32 = 0x3F3504F3
_LOG_F32 = (0.6666666269302368, 0.40000852942466736, 0.2850988805294037, 0.24034430086612701)


def _exponential(base: str) -> Maker:
    def make(code: Code) -> str:
        most, least = (710.0, -746.0) if base == "exp" else (1025.0, -1076.0)
        x = code.select("ogt", "%0", most, code.number(most, _KIND), "%0", _KIND)
        x = code.select("olt", x, least, code.number(least, _KIND), x, _KIND)
        magic = code.number(ROUND_F64, _KIND)
        shifted = code.fma(x, code.number(1 / LN2 if base == "exp" else 1.0, _KIND), magic, _KIND)
        whole = code.f("fsub", shifted, magic, _KIND)
        ln2, low = code.number(LN2, _KIND), code.number(_LN2_LOW, _KIND)
        if base == "exp":
            exact = code.fma(whole, code.number(-LN2, _KIND), x, _KIND)
            minus_low = code.number(-_LN2_LOW, _KIND)
            r = code.fma(whole, minus_low, exact, _KIND)
            rest = code.fma(whole, minus_low, code.f("fsub", exact, r, _KIND), _KIND)
        else:
            y = code.f("fsub", x, whole, _KIND)  # exact
            r = code.f("fmul", y, ln2, _KIND)
            lost = code.fma(y, ln2, code.f("fsub", code.number(-0.0, _KIND), r, _KIND), _KIND)
            rest = code.fma(y, low, lost, _KIND)
        q = code.polynomial(r, tuple(1.0 / factorial(k) for k in range(2, _LAST + 1)), _KIND)
        tail = code.fma(code.f("fmul", r, r, _KIND), q, rest, _KIND)
        one = code.number(1.0, _KIND)
        high = code.f("fadd", one, r, _KIND)
        lost = code.f("fadd", code.f("fsub", one, high, _KIND), r, _KIND)
        p = code.f("fadd", high, code.f("fadd", lost, tail, _KIND), _KIND)
        # 2^n in two factors: n may be below the least exponent, and above the largest.
        n = code.value(f"trunc i64 {code.value(f'bitcast double {shifted} to i64')} to i32")
        half = code.value(f"ashr i32 {n}, 1")
        for part in (half, code.value(f"sub i32 {n}, {half}")):
            wide = code.value(f"zext i32 {code.value(f'add i32 {part}, 1023')} to i64")
            factor = code.value(f"bitcast i64 {code.value(f'shl i64 {wide}, 52')} to double")
            p = code.f("fmul", p, factor, _KIND)
        return p

    return make


def _logarithm(base: str) -> Maker:
    def make(code: Code) -> str:
        k, f = _split(code)
        # log(1 + f) = high + low
        s = code.f("fdiv", f, code.f("fadd", f, code.number(2.0, _KIND), _KIND), _KIND)
        z = code.f("fmul", s, s, _KIND)
        r = code.f("fmul", z, code.polynomial(z, _LOG, _KIND), _KIND)
        half = code.f("fmul", f, code.number(0.5, _KIND), _KIND)
        square = code.f("fmul", half, f, _KIND)
        lost = code.fma(half, f, code.f("fsub", code.number(-0.0, _KIND), square, _KIND), _KIND)
        high = code.f("fsub", f, square, _KIND)
        low = code.f("fsub", code.f("fsub", f, high, _KIND), square, _KIND)
        low = code.f("fsub", low, lost, _KIND)
        low = code.fma(s, code.f("fadd", square, r, _KIND), low, _KIND)
        factor, factor_low, per_two, per_two_low = _BASES[base]
        product = high
        if factor != 1.0:
            c = code.number(factor, _KIND)
            product = code.f("fmul", high, c, _KIND)
            lost = code.fma(high, c, code.f("fsub", code.number(-0.0, _KIND), product, _KIND), _KIND)
            low = code.fma(low, c, lost, _KIND)
            low = code.fma(high, code.number(factor_low, _KIND), low, _KIND)
        whole = code.f("fmul", k, code.number(per_two, _KIND), _KIND)  # exact
        total = code.f("fadd", whole, product, _KIND)
        lost = code.f("fadd", code.f("fsub", whole, total, _KIND), product, _KIND)
        low = code.f("fadd", code.fma(k, code.number(per_two_low, _KIND), low, _KIND), lost, _KIND)
        return _special(code, code.f("fadd", total, low, _KIND))

    return make


def log1p(x: Real) -> Real:
    """log(1 + x) of either type, special values included."""
    code = x.code
    coefficients, ln2, ln2_low, tiny = _LOG1P[x.kind]
    u, missed = two_sum(x.constant(1.0), x)
    name, exponent = near_one(code, u.name, x.kind)
    near = Truth(code, code.value(f"icmp eq i32 {exponent}, 0"))  # there x itself loses nothing
    f = near.pick(x, Real(code, name, x.kind) - 1.0)
    missed = near.pick(0.0, missed / u)
    k = x.made(f"sitofp i32 {exponent} to {x.kind}")
    s = f / (f + 2.0)
    z = s * s
    half = f * 0.5
    square, lost = half.product(f)
    high, low = quick_sum(f, -square)
    low = s.fma(square + z * z.poly(coefficients), low - lost)
    total, rest = quick_sum(k * ln2, high)
    result = total + (k.fma(ln2_low, low + missed) + rest)
    result = (abs(x).is_("olt", tiny) | x.is_("oeq", INFINITY)).pick(x, result)
    result = x.is_("oeq", -1.0).pick(-INFINITY, result)
    return x.is_("uge", -1.0).pick(x.is_("uno", 0.0).pick(x, result), float("nan"))


def _log1p(code: Code) -> str:
    return log1p(Real(code, "%0")).name


def _log1p_single(code: Code) -> str:
    return log1p(Real(code, "%0", "float")).name


def near_one(code: Code, x: str, kind: str = _KIND) -> tuple[str, str]:
    """(m, e): ``x`` is 2^e * m, m between the root of 1/2 and that of 2; e is an i32.

    For a positive number of type ``kind`` that is no denormal.
    """
    if kind == "float":
        bits = code.value(f"bitcast float {x} to i32")
        exponent = code.value(f"ashr i32 {code.value(f'sub i32 {bits}, {_HALF_ROOT_F32}')}, 23")
        shift = code.value(f"shl i32 {exponent}, 23")
        return code.value(f"bitcast i32 {code.value(f'sub i32 {bits}, {shift}')} to float"), exponent
    bits = code.value(f"bitcast double {x} to i64")
    above = code.value(f"sub i64 {bits}, {_HALF_ROOT}")
    top = code.value(f"trunc i64 {code.value(f'lshr i64 {above}, 32')} to i32")
    exponent = code.value(f"ashr i32 {top}, 20")
    shift = code.value(f"shl i64 {code.value(f'sext i32 {exponent} to i64')}, 52")
    return code.value(f"bitcast i64 {code.value(f'sub i64 {bits}, {shift}')} to double"), exponent


def _split(code: Code) -> tuple[str, str]:
    """(k, f): %0 is 2^k * (1 + f), with 1 + f between the root of 1/2 and that of 2."""
    tiny = code.value(f"fcmp olt double %0, {code.number(2.0**-1022, _KIND)}")
    scaled = code.f("fmul", "%0", code.number(2.0**54, _KIND), _KIND)
    x = code.value(f"select i1 {tiny}, double {scaled}, double %0")
    less = code.value(f"select i1 {tiny}, i32 54, i32 0")
    m, exponent = near_one(code, x)
    k = code.value(f"sitofp i32 {code.value(f'sub i32 {exponent}, {less}')} to double")
    return k, code.f("fsub", m, code.number(1.0, _KIND), _KIND)


def _special(code: Code, result: str) -> str:
    """Minus infinity at zero, NaN below it and for NaN; plus infinity stays."""
    result = code.select("oeq", "%0", INFINITY, "%0", result, _KIND)
    result = code.select("oeq", "%0", 0.0, code.number(-INFINITY, _KIND), result, _KIND)
    return code.select("uge", "%0", 0.0, code.select("uno", "%0", 0.0, "%0", result, _KIND), NAN, _KIND)


# 1 / log(base) and log 2 / log(base) in two parts each; the first part of the latter has zeros at its
# end, so that its product with an exponent is exact.
_BASES = {
    "log": (1.0, 0.0, 6.93147180369123816490e-01, 1.90821492927058770002e-10),
    "log2": (1.4426950408889634, 2.0355273740931033e-17, 1.0, 0.0),
    "log10": (
        0.4342944819032518,
        1.098319650216765e-17,
        3.01029995663611771306e-01,
        3.69423907715893078616e-13,
    ),
}
# By type: coefficients, ln 2 in parts, and up to where log(1 + x) is x.
_LOG1P = {
    "double": (_LOG, *_BASES["log"][2:], 2.0**-54),
    "float": (_LOG_F32, 0.693145751953125, 1.4286068203094172e-06, 2.0**-25),
}
F64: dict[str, Maker] = {
    **{name: _exponential(name) for name in ("exp", "exp2")},
    **{name: _logarithm(name) for name in ("log", "log2", "log10")},
    "log1p": _log1p,
}
SINGLE: dict[str, Maker] = {"log1pf": _log1p_single}
NEED_FUSED = F64.keys() - {"log1p"}
