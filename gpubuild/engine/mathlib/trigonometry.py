"""Trigonometry: sine, cosine and tangent as LLVM IR that vectorises.

An argument of f32 is multiplied by 2/pi in three parts; far from zero by what counts of it there. f64: an
argument becomes n * pi/2 + r with pi/2 in parts, whose products with n are fused or exact; arguments
beyond a bound, infinities and NaN go to the C library, or where there is none to far_turns. Polynomials
of f64 are fdlibm's; f32 computes in f64. Bounds on errors are in docs/cpu.md.
"""

from __future__ import annotations

from math import factorial, pi

from gpubuild.engine.mathlib.expressions import Real, quick_sum, two_sum
from gpubuild.engine.mathlib.polynomials import ROUND_F64, Code, Maker
from gpubuild.engine.mathlib.range_reduction import near_or_far, or_far

_KIND = "double"
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# What 2/pi and its products with 2^27, 2^53 and 2^79 are more than multiples of 4: 27 bits behind the
# point, 29 more, and the rest. Floats from 2^50, 2^76 and 2^102 on are integers times these powers; the
# products of what is left, below 2^50, with the first two parts are exact. No float is closer to a multiple
# of pi/2 than 2^-30.
_TWO_OVER_PI = (
    (0.6366197690367699, 3.3308114738561656e-09, 2.276010073078396e-18),
    (3.447053946554661, 2.168126039814311e-09, 1.0330342399379403e-17),
    (2.645500473678112, 2.55590268394279e-09, 8.441553036223536e-18),
    (3.6715237200260162, 6.154438472738555e-09, 9.6110285918178e-18),
)
_FAR = ((2.0**102, 2.0**-79), (2.0**76, 2.0**-53), (2.0**50, 2.0**-27))
_MOST_FUSED, _MOST = 2.0**26, 2.0**20
# Without fused operations: three parts of 33 bits, whose products with what is below 2^20 are exact, and
# the rest.
_HALF_PI_SHORT = (
    1.5707963267341256,
    6.077100506303966e-11,
    2.0222662487111665e-21,
    8.4784276603689e-32,
)
_SINE = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COSINE = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


def _quarters(code: Code, x: str) -> tuple[str, str]:
    """The number of quarter turns next to ``x``, as a double and in the low bits of an integer."""
    magic = code.number(ROUND_F64, _KIND)
    shifted = code.fma(x, code.number(2 / pi, _KIND), magic, _KIND)
    whole = code.f("fsub", shifted, magic, _KIND)
    return whole, code.value(f"trunc i64 {code.value(f'bitcast double {shifted} to i64')} to i32")


def _quarter_turns(code: Code, x: Real) -> tuple[Real, str]:
    """(r, n): ``x``, a float made wide, is n * pi/2 + r plus turns, |r| up to pi/4 and a little."""
    size = abs(x)
    choices = [size.is_("oge", bound) for bound, _ in _FAR]
    scale, *parts = (x.constant(value) for value in (1.0, *_TWO_OVER_PI[0]))
    for test, (_, power), row in reversed(list(zip(choices, _FAR, _TWO_OVER_PI[:0:-1], strict=True))):
        scale = test.pick(power, scale)
        parts = [test.pick(new, old) for new, old in zip(row, parts, strict=True)]
    scaled = x * scale
    first, second = scaled * parts[0], scaled * parts[1]  # exact
    (whole, n), (more, m) = first.nearest(), second.nearest()
    a, b = first - whole, second - more
    last, k = (a + b).nearest()
    turns = scaled.fma(parts[2], (a - last) + b)
    return turns * (pi / 2), code.value(f"add i32 {code.value(f'add i32 {n}, {m}')}, {k}")


def _f32(name: str) -> Maker:
    def make(code: Code) -> str:
        x = Real(code, "%0", "float")
        r, n = _quarter_turns(code, x.wide())
        z = r * r
        # Taylor's: what is left out is below 2^-36 of the result
        sine = z.poly([(-1.0) ** k / factorial(2 * k + 1) for k in range(1, 6)])
        sine = (r * z).fma(sine, r)
        cosine = z.poly([(-1.0) ** k / factorial(2 * k) for k in range(7)])
        if name == "tanf":
            odd = _bit(code, n, 1)
            top = _pick(code, odd, cosine.name, sine.name)
            bottom = _pick(code, odd, (-sine).name, cosine.name)
            result = (Real(code, top) / Real(code, bottom)).narrow()
        else:
            result = Real(code, _turned(code, name, n, sine.name, cosine.name)).narrow()
        if name == "cosf":
            return result.name
        return x.is_("oeq", 0.0).pick(x, result).name  # keeps the sign of zero

    return make


def _reduced(given: Real) -> tuple[str, str, str]:
    """(x, y, n): ``given`` is n * pi/2 + x + y, without fused operations."""
    whole, n = given.nearest_to_product(2 / pi)
    first, second, third, rest = (whole * part for part in _HALF_PI_SHORT)  # all but the last one exact
    a, a_low = two_sum(given - first, -second)
    b, b_low = two_sum(a, -third)
    x, y = quick_sum(b, (a_low + b_low) - rest)
    return x.name, y.name, n


def _reduced_fused(code: Code) -> tuple[str, str, str]:
    whole, n = _quarters(code, "%0")
    a = code.fma(whole, code.number(-_HALF_PI[0], _KIND), "%0", _KIND)  # exact
    b = code.f("fmul", whole, code.number(_HALF_PI[1], _KIND), _KIND)
    lost = code.fma(whole, code.number(-_HALF_PI[1], _KIND), b, _KIND)
    # x + y = a - b + lost - whole * third part
    x = code.f("fsub", a, b, _KIND)
    back = code.f("fsub", x, a, _KIND)
    y = code.f("fsub", a, code.f("fsub", x, back, _KIND), _KIND)
    y = code.f("fsub", y, code.f("fadd", b, back, _KIND), _KIND)
    y = code.f("fadd", y, code.fma(whole, code.number(-_HALF_PI[2], _KIND), lost, _KIND), _KIND)
    return x, y, n


def _f64(name: str) -> Maker:
    def make(code: Code) -> str:
        given = Real(code, "%0")
        if not code.library:
            x, y, n = near_or_far(given, _MOST_FUSED, lambda: _reduced_fused(code))
        else:
            x, y, n = _reduced_fused(code) if code.fused else _reduced(given)
        z = code.f("fmul", x, x, _KIND)
        sine, cosine = _sine(code, x, y, z), _cosine(code, x, y, z)
        if name == "tan":
            odd = _bit(code, n, 1)
            minus = code.value(f"fneg double {sine}")
            result = code.f("fdiv", _pick(code, odd, cosine, sine), _pick(code, odd, minus, cosine), _KIND)
        else:
            result = _turned(code, name, n, sine, cosine)
        near = Real(code, result)
        if name != "cos":
            near = given.is_("oeq", 0.0).pick(given, near)  # keeps the sign of zero
        if not code.library:
            return near.name
        return or_far(name, given, _MOST_FUSED if code.fused else _MOST, near).name

    return make


def _sine(code: Code, x: str, y: str, z: str) -> str:
    """x - ((z * (y / 2 - v * r) - y) - v * s), as fdlibm has it."""
    v = code.f("fmul", z, x, _KIND)
    r = code.polynomial(z, _SINE[1:], _KIND)
    minus_v = code.f("fsub", code.number(-0.0, _KIND), v, _KIND)
    inner = code.fma(minus_v, r, code.f("fmul", y, code.number(0.5, _KIND), _KIND), _KIND)
    inner = code.fma(z, inner, code.f("fsub", code.number(-0.0, _KIND), y, _KIND), _KIND)
    inner = code.fma(minus_v, code.number(_SINE[0], _KIND), inner, _KIND)
    return code.f("fsub", x, inner, _KIND)


def _cosine(code: Code, x: str, y: str, z: str) -> str:
    one = code.number(1.0, _KIND)
    r = code.f("fmul", z, code.polynomial(z, _COSINE, _KIND), _KIND)
    half = code.f("fmul", z, code.number(0.5, _KIND), _KIND)
    w = code.f("fsub", one, half, _KIND)
    rest = code.f("fsub", code.f("fsub", one, w, _KIND), half, _KIND)
    minus_y = code.f("fsub", code.number(-0.0, _KIND), y, _KIND)
    tail = code.fma(z, r, code.f("fmul", x, minus_y, _KIND), _KIND)
    return code.f("fadd", w, code.f("fadd", rest, tail, _KIND), _KIND)


def _turned(code: Code, name: str, n: str, sine: str, cosine: str) -> str:
    """Sine or cosine after ``n`` quarter turns."""
    turns = code.value(f"add i32 {n}, 1") if name.startswith("cos") else n
    value = _pick(code, _bit(code, turns, 1), cosine, sine)
    minus = code.f("fsub", code.number(-0.0, _KIND), value, _KIND)
    return _pick(code, _bit(code, turns, 2), minus, value)


def _bit(code: Code, n: str, bit: int) -> str:
    return code.value(f"icmp ne i32 {code.value(f'and i32 {n}, {bit}')}, 0")


def _pick(code: Code, test: str, yes: str, no: str) -> str:
    return code.value(f"select i1 {test}, double {yes}, double {no}")


F32: dict[str, Maker] = {name: _f32(name) for name in ("sinf", "cosf", "tanf")}
F64: dict[str, Maker] = {name: _f64(name) for name in ("sin", "cos", "tan")}
