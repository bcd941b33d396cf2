"""Trigonometry: sine, cosine and tangent as LLVM IR that vectorises, with fused multiply-add.

An argument becomes n * pi/2 + r with pi/2 in two or three parts: products with n are fused, so that the
subtraction of the first one is exact. That holds for n below 2^52, and r is good enough up to the bounds
below; larger arguments, infinities and NaN take a branch to the C library. Worst errors of the tests'
values, in units in the last place: 0.51 for f32, which computes in f64, 0.8 for ``sin``, ``cos`` of f64,
whose polynomials are fdlibm's.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi

from gpubuild.engine.cpu.polynomials import ROUND_F64, Code, Maker, rounded

_KIND = "double"
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# Nothing in f32 below 2^40 is closer to a multiple of pi/2 than 2^-40, where 2^40 * 2^-107 are lost.
_MOST_F32 = 2.0**40
_MOST_F64 = 2.0**26
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


def _with_far(name: str, kind: str, most: float, near: Callable[[Code], str]) -> Maker:
    """``near`` for arguments up to ``most``, the C library for others."""

    def make(code: Code) -> str:
        suffix = "f32" if kind == "float" else "f64"
        code.declarations.add(f"declare {kind} @llvm.fabs.{suffix}({kind})")
        # Under its own name LLVM would make a vector operation of the call, for all elements at once.
        attributes = "nounwind willreturn memory(none)"
        code.declarations.add(f"declare {kind} @{name}({kind}) {attributes}")
        code.declarations.add(
            f"define internal {kind} @gpubuild.far.{name}({kind} %0) noinline {attributes} {{\n"
            f"  %r = tail call {kind} @{name}({kind} %0)\n  ret {kind} %r\n}}"
        )
        size = code.value(f"call {kind} @llvm.fabs.{suffix}({kind} %0)")
        test = code.value(f"fcmp ole {kind} {size}, {code.number(most, kind)}")
        code.lines.append(f"  br i1 {test}, label %near, label %far\nfar:\n")
        far = code.value(f"call {kind} @gpubuild.far.{name}({kind} %0)")
        code.lines.append("  br label %done\nnear:\n")
        result = near(code)
        code.lines.append("  br label %done\ndone:\n")
        return code.value(f"phi {kind} [ {result}, %near ], [ {far}, %far ]")

    return make


def _quarters(code: Code, x: str) -> tuple[str, str]:
    """The number of quarter turns next to ``x``, as a double and in the low bits of an integer."""
    magic = code.number(ROUND_F64, _KIND)
    shifted = code.fma(x, code.number(2 / pi, _KIND), magic, _KIND)
    whole = code.f("fsub", shifted, magic, _KIND)
    return whole, code.value(f"trunc i64 {code.value(f'bitcast double {shifted} to i64')} to i32")


def _near_f32(name: str) -> Callable[[Code], str]:
    def near(code: Code) -> str:
        x = code.value("fpext float %0 to double")
        whole, n = _quarters(code, x)
        r = code.fma(whole, code.number(-_HALF_PI[0], _KIND), x, _KIND)
        r = code.fma(whole, code.number(-_HALF_PI[1], _KIND), r, _KIND)
        z = code.f("fmul", r, r, _KIND)
        # Taylor's: what is left out is below 2^-36 of the result
        sine = code.polynomial(z, tuple((-1.0) ** k / factorial(2 * k + 1) for k in range(1, 6)), _KIND)
        sine = code.fma(code.f("fmul", r, z, _KIND), sine, r, _KIND)
        cosine = code.polynomial(z, tuple((-1.0) ** k / factorial(2 * k) for k in range(7)), _KIND)
        if name == "tanf":
            odd = _bit(code, n, 1)
            top = _pick(code, odd, cosine, sine)
            bottom = _pick(code, odd, code.f("fsub", code.number(-0.0, _KIND), sine, _KIND), cosine)
            result = rounded(code, code.f("fdiv", top, bottom, _KIND))
        else:
            result = rounded(code, _turned(code, name, n, sine, cosine))
        if name == "cosf":
            return result
        return code.select("oeq", "%0", 0.0, "%0", result, "float")  # keeps the sign of zero

    return near


def _near_f64(name: str) -> Callable[[Code], str]:
    def near(code: Code) -> str:
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
        z = code.f("fmul", x, x, _KIND)
        return _turned(code, name, n, _sine(code, x, y, z), _cosine(code, x, y, z))

    return near


def _sine(code: Code, x: str, y: str, z: str) -> str:
    """x - ((z * (y / 2 - v * r) - y) - v * s), as fdlibm has it."""
    v = code.f("fmul", z, x, _KIND)
    r = code.polynomial(z, _SINE[1:], _KIND)
    minus_v = code.f("fsub", code.number(-0.0, _KIND), v, _KIND)
    inner = code.fma(minus_v, r, code.f("fmul", y, code.number(0.5, _KIND), _KIND), _KIND)
    inner = code.fma(z, inner, code.f("fsub", code.number(-0.0, _KIND), y, _KIND), _KIND)
    inner = code.fma(minus_v, code.number(_SINE[0], _KIND), inner, _KIND)
    result = code.f("fsub", x, inner, _KIND)
    return code.select("oeq", x, 0.0, x, result, _KIND)  # keeps the sign of zero


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


F32: dict[str, Maker] = {
    name: _with_far(name, "float", _MOST_F32, _near_f32(name)) for name in ("sinf", "cosf", "tanf")
}
F64: dict[str, Maker] = {name: _with_far(name, _KIND, _MOST_F64, _near_f64(name)) for name in ("sin", "cos")}
