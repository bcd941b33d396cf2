"""Sine, cosine and tangent far from zero.

On CPUs the C library computes them, one at a time. A branch or a call in a loop would keep LLVM from
vectorising it. So the call is to a function with variants for vectors, which return their second argument
at once where no element is far.

On GPUs, Payne and Hanek's method finds the quarter turns in a large number. x is m * 2^e with an integer m
of 53 bits (f32: 24). Of 2/pi only 192 bits count, from the one whose product with x is two quarter turns.
126 bits of that product are fractional. No double is closer to a multiple of pi/2 than 2^-62, so 64 bits of
the remainder are good. The code is a branch of its own, which work-items with near arguments skip.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from gpubuild.engine.mathlib.expressions import NAN, SHORT, Code, Condition, Real, quick_sum
from gpubuild.support.frozen import frozen

PREFIX = "gpubuild.far."
_ATTRIBUTES = "noinline nounwind willreturn memory(none)"
_SIZES = (2, 4, 8, 16)


def or_far(name: str, x: Real, most: float, near: Real) -> Real:
    """Return ``near`` where |x| is at most ``most``; else, and for NaN, call C's function ``name``."""
    code, kind = x.code, x.kind
    code.declarations.add(f"declare {kind} @{name}({kind}) {_ATTRIBUTES.removeprefix('noinline ')}")
    code.declarations.add(f"declare {kind} @llvm.fabs.{SHORT[kind]}({kind})")
    bound = x.operand(most)
    code.declarations.add(_alone(name, kind, bound))
    for size in _SIZES:
        vector = f"v{size}{SHORT[kind]}"
        code.declarations.add(f"declare <{size} x {kind}> @llvm.fabs.{vector}(<{size} x {kind}>)")
        code.declarations.add(f"declare i1 @llvm.vector.reduce.and.v{size}i1(<{size} x i1>)")
        code.declarations.add(_together(name, kind, bound, size))
    variants = ",".join(f"_ZGV_LLVM_N{n}vv_{PREFIX}{name}({PREFIX}{name}.{n})" for n in _SIZES)
    return x.emit(
        f"call {kind} @{PREFIX}{name}({kind} {x.name}, {kind} {near.name})"
        f' "vector-function-abi-variant"="{variants}"'
    )


def _alone(name: str, kind: str, bound: str) -> str:
    return (
        f"define internal {kind} @{PREFIX}{name}({kind} %x, {kind} %near) {_ATTRIBUTES} {{\n"
        f"  %size = call {kind} @llvm.fabs.{SHORT[kind]}({kind} %x)\n"
        f"  %close = fcmp ole {kind} %size, {bound}\n"
        "  br i1 %close, label %ready, label %far\n"
        f"far:\n  %r = call {kind} @{name}({kind} %x)\n  ret {kind} %r\n"
        f"ready:\n  ret {kind} %near\n}}"
    )


def _together(name: str, kind: str, bound: str, size: int) -> str:
    vector = f"<{size} x {kind}>"
    bounds = ", ".join([f"{kind} {bound}"] * size)
    lines = [
        f"define internal {vector} @{PREFIX}{name}.{size}({vector} %x, {vector} %near) {_ATTRIBUTES} {{",
        f"  %size = call {vector} @llvm.fabs.v{size}{SHORT[kind]}({vector} %x)",
        f"  %close = fcmp ole {vector} %size, <{bounds}>",
        f"  %all = call i1 @llvm.vector.reduce.and.v{size}i1(<{size} x i1> %close)",
        f"  br i1 %all, label %ready, label %far\nready:\n  ret {vector} %near\nfar:",
    ]
    result = "%near"
    for i in range(size):
        lines += [
            f"  %x{i} = extractelement {vector} %x, i32 {i}",
            f"  %n{i} = extractelement {vector} %near, i32 {i}",
            f"  %f{i} = call {kind} @{PREFIX}{name}({kind} %x{i}, {kind} %n{i})",
            f"  %r{i} = insertelement {vector} {result}, {kind} %f{i}, i32 {i}",
        ]
        result = f"%r{i}"
    return "\n".join([*lines, f"  ret {vector} {result}\n}}"])


# The fractional bits of 2/pi, after 64 zeros
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
_TABLE = "@gpubuild.two_over_pi"
_CONSTANTS = 4  # AMDGPU's address space for them; others have no special one of this number


@frozen
class _Layout:
    """The bits of a type, and pi/2 in two parts of it."""

    mantissa: int  # bits
    exponents: int  # the largest biased one, of infinities and NaN
    first: int  # the biased exponent of a number whose bits of 2/pi begin with the table
    half_pi: tuple[float, float]


_LAYOUTS = {
    "double": _Layout(
        mantissa=52, exponents=2047, first=1013, half_pi=(1.5707963267948966, 6.123233995736766e-17)
    ),
    "float": _Layout(
        mantissa=23, exponents=255, first=88, half_pi=(1.5707963705062866, -4.371138828673793e-08)
    ),
}


Reduced = tuple[Real, Real, str]


def near_or_far(x: Real, most: float, reduce: Callable[[Real], Reduced]) -> Reduced:
    """Return (a, b, n): ``x`` is n * pi/2 + a + b plus turns, by ``reduce`` for |x| up to ``most``.

    Only the first branch of a function can be this one: its blocks have fixed names.
    """
    code = x.code
    code.line(f"br i1 {abs(x).compare('ole', most).name}, label %near, label %far")
    code.line("near:")
    near = reduce(x)
    code.line("br label %reduced")
    code.line("far:")
    far = _far_quarters(x)
    code.line("br label %reduced")
    code.line("reduced:")
    a, b = (
        x.emit(f"phi {x.kind} [ {left.name}, %near ], [ {right.name}, %far ]")
        for left, right in zip(near[:2], far[:2], strict=True)
    )
    return a, b, code.value(f"phi i32 [ {near[2]}, %near ], [ {far[2]}, %far ]")


def _far_quarters(x: Real) -> Reduced:
    """Return (a, b, n): ``x`` is n * pi/2 + a + b plus turns, for |x| from 2^-9 (f32: 2^-39).

    ``a`` is NaN where ``x`` is not finite.
    """
    code, layout = x.code, _LAYOUTS[x.kind]
    words = ", ".join(f"i64 {word}" for word in _TWO_OVER_PI)
    code.declarations.add(
        f"{_TABLE} = internal unnamed_addr addrspace({_CONSTANTS}) constant "
        f"[{len(_TWO_OVER_PI)} x i64] [{words}], align 8"
    )
    bits = x.bits()
    if x.kind == "float":
        bits = code.value(f"zext i32 {bits} to i64")
    exponent = code.value(f"and i64 {code.value(f'lshr i64 {bits}, {layout.mantissa}')}, {layout.exponents}")
    low = code.value(f"and i64 {bits}, {(1 << layout.mantissa) - 1}")
    mantissa = code.value(f"or i64 {low}, {1 << layout.mantissa}")
    product = _product(code, mantissa, code.value(f"sub i64 {exponent}, {layout.first}"))
    # The top two bits count quarters; the next one rounds to the nearest.
    rest = code.value(f"shl i128 {product}, 2")
    above = code.value(f"icmp slt i128 {rest}, 0")
    quarters = code.value(f"trunc i128 {code.value(f'lshr i128 {product}, 126')} to i32")
    n = code.value(f"add i32 {quarters}, {code.value(f'zext i1 {above} to i32')}")
    size = code.value(f"select i1 {above}, i128 {code.value(f'sub i128 0, {rest}')}, i128 {rest}")
    high, more = _fraction(x, size)
    a = high * layout.half_pi[0]
    missed = high.fma(layout.half_pi[0], -a)
    a, b = quick_sum(a, more.fma(layout.half_pi[0], high.fma(layout.half_pi[1], missed)))
    negative = x.is_negative()
    other = code.value(f"xor i1 {negative.name}, {above}")
    a, b = (x.emit(f"select i1 {other}, {x.kind} {(-v).name}, {x.kind} {v.name}") for v in (a, b))
    n = code.value(f"select i1 {negative.name}, i32 {code.value(f'sub i32 0, {n}')}, i32 {n}")
    infinite = code.value(f"icmp eq i64 {exponent}, {layout.exponents}")
    return Condition(code, infinite).select(NAN, a), b, n


def _product(code: Code, mantissa: str, offset: str) -> str:
    """Return the upper 128 of the lower 192 bits of ``mantissa`` times the table from bit ``offset``."""
    word = code.value(f"lshr i64 {offset}, 6")
    shift = code.value(f"and i64 {offset}, 63")
    code.declarations.add("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    loaded = []
    for k in range(4):
        index = code.value(f"add i64 {word}, {k}")
        address = code.value(
            f"getelementptr inbounds [{len(_TWO_OVER_PI)} x i64], ptr addrspace({_CONSTANTS}) {_TABLE}, "
            f"i64 0, i64 {index}"
        )
        loaded.append(code.value(f"load i64, ptr addrspace({_CONSTANTS}) {address}"))
    first, second, third = (
        code.value(f"call i64 @llvm.fshl.i64(i64 {a}, i64 {b}, i64 {shift})") for a, b in pairwise(loaded)
    )
    wide = code.value(f"zext i64 {mantissa} to i128")
    products = [
        code.value(f"mul i128 {wide}, {code.value(f'zext i64 {part} to i128')}")
        for part in (first, second, third)
    ]
    top = code.value(f"shl i128 {products[0]}, 64")
    last = code.value(f"lshr i128 {products[2]}, 64")
    return code.value(f"add i128 {code.value(f'add i128 {top}, {products[1]}')}, {last}")


def _fraction(x: Real, size: str) -> tuple[Real, Real]:
    """Return (high, low), 2^-128 times a positive i128 of at most 63 leading zeros, of the type of ``x``."""
    code = x.code
    bits = _LAYOUTS[x.kind].mantissa + 1
    code.declarations.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    upper = code.value(f"trunc i128 {code.value(f'lshr i128 {size}, 64')} to i64")
    zeros = code.value(f"call i64 @llvm.ctlz.i64(i64 {upper}, i1 false)")
    count = code.value(f"zext i64 {code.value(f'and i64 {zeros}, 63')} to i128")
    full = code.value(f"shl i128 {size}, {count}")
    whole = "i64" if x.kind == "double" else "i32"
    parts = []
    for k in (1, 2):
        part = code.value(f"trunc i128 {code.value(f'lshr i128 {full}, {128 - k * bits}')} to {whole}")
        part = code.value(f"and {whole} {part}, {(1 << bits) - 1}")
        parts.append(x.emit(f"uitofp {whole} {part} to {x.kind}"))
    scale = x.power_of_two(code.value(f"trunc i64 {code.value(f'sub i64 0, {zeros}')} to i32"))
    return parts[0] * (scale * 2.0**-bits), parts[1] * (scale * 2.0 ** (-2 * bits))
