"""Powers: ``powf`` as straight-line LLVM IR: e^(y log |x|) in f64, then C's special cases."""

from __future__ import annotations

from gpubuild.engine.cpu.doubles import near_one
from gpubuild.engine.cpu.polynomials import INFINITY, LN2, NAN, Code, Maker, exp64, log_near_one, rounded

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


F32: dict[str, Maker] = {"powf": _power}
F64: dict[str, Maker] = {}
