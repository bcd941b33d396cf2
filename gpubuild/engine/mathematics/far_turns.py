"""Far turns: the quarter turns in a large double, where there is no C library to ask.

Payne and Hanek's way: x is m * 2^e with an integer m of 53 bits, and of 2/pi only 192 bits count, which
begin where its product with x has the bit that is worth two quarter turns. Of that product 126 bits are
behind the point. No double is closer to a multiple of pi/2 than 2^-62, so that 64 bits of what is left
are good. It is a branch of its own, which work-items that need it not pass by.
"""

from __future__ import annotations

from itertools import pairwise

from gpubuild.engine.mathematics.polynomials import Code
from gpubuild.engine.mathematics.reals import Real, quick_sum

# 2/pi behind the point, after 64 zeros
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
)  # fmt: skip
_TABLE = "@gpubuild.two_over_pi"
_CONSTANTS = 4  # AMDGPU's address space for them, like any other one elsewhere
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_FIRST = 1013  # the biased exponent of a number whose bits of 2/pi begin with the table


def far_quarters(x: Real) -> tuple[Real, Real, str]:
    """(a, b, n): ``x`` is n * pi/2 + a + b plus turns, for |x| from 2^-9; NaN for what is not finite."""
    code = x.code
    words = ", ".join(f"i64 {word}" for word in _TWO_OVER_PI)
    code.declarations.add(
        f"{_TABLE} = internal unnamed_addr addrspace({_CONSTANTS}) constant "
        f"[{len(_TWO_OVER_PI)} x i64] [{words}], align 8"
    )
    bits = x.bits()
    exponent = code.value(f"and i64 {code.value(f'lshr i64 {bits}, 52')}, 2047")
    low = code.value(f"and i64 {bits}, {(1 << 52) - 1}")
    mantissa = code.value(f"or i64 {low}, {1 << 52}")
    product = _product(code, mantissa, code.value(f"sub i64 {exponent}, {_FIRST}"))
    # The top bits count quarters, and the next one says whether the nearest is one more.
    rest = code.value(f"shl i128 {product}, 2")
    above = code.value(f"icmp slt i128 {rest}, 0")
    quarters = code.value(f"trunc i128 {code.value(f'lshr i128 {product}, 126')} to i32")
    n = code.value(f"add i32 {quarters}, {code.value(f'zext i1 {above} to i32')}")
    size = code.value(f"select i1 {above}, i128 {code.value(f'sub i128 0, {rest}')}, i128 {rest}")
    high, more = _fraction(x, size)
    a = high * _HALF_PI[0]
    missed = high.fma(_HALF_PI[0], -a)
    a, b = quick_sum(a, more.fma(_HALF_PI[0], high.fma(_HALF_PI[1], missed)))
    negative = x.is_negative()
    other = code.value(f"xor i1 {negative.name}, {above}")
    a, b = (x.made(f"select i1 {other}, double {(-v).name}, double {v.name}") for v in (a, b))
    n = code.value(f"select i1 {negative.name}, i32 {code.value(f'sub i32 0, {n}')}, i32 {n}")
    infinite = code.value(f"icmp eq i64 {exponent}, 2047")
    a = x.made(f"select i1 {infinite}, double {code.number(float('nan'), 'double')}, double {a.name}")
    return a, b, n


def _product(code: Code, mantissa: str, offset: str) -> str:
    """The upper 128 of the lower 192 bits of ``mantissa`` times the table's from bit ``offset`` on."""
    word = code.value(f"lshr i64 {offset}, 6")
    shift = code.value(f"and i64 {offset}, 63")
    code.declarations.add("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    loaded = []
    for k in range(4):
        index = code.value(f"add i64 {word}, {k}")
        place = code.value(
            f"getelementptr inbounds [{len(_TWO_OVER_PI)} x i64], ptr addrspace({_CONSTANTS}) {_TABLE}, "
            f"i64 0, i64 {index}"
        )
        loaded.append(code.value(f"load i64, ptr addrspace({_CONSTANTS}) {place}"))
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
    """(high, low): 2^-128 times a positive i128 of at most 63 leading zeros."""
    code = x.code
    code.declarations.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    upper = code.value(f"trunc i128 {code.value(f'lshr i128 {size}, 64')} to i64")
    zeros = code.value(f"call i64 @llvm.ctlz.i64(i64 {upper}, i1 false)")
    count = code.value(f"zext i64 {code.value(f'and i64 {zeros}, 63')} to i128")
    full = code.value(f"shl i128 {size}, {count}")
    upper = code.value(f"trunc i128 {code.value(f'lshr i128 {full}, 75')} to i64")  # 53 bits
    lower = code.value(f"trunc i128 {code.value(f'lshr i128 {full}, 22')} to i64")  # with 53 more
    lower = code.value(f"and i64 {lower}, {(1 << 53) - 1}")
    scale = x.power_of_two(code.value(f"trunc i64 {code.value(f'sub i64 0, {zeros}')} to i32"))
    high = x.made(f"uitofp i64 {upper} to double") * (scale * 2.0**-53)
    return high, x.made(f"uitofp i64 {lower} to double") * (scale * 2.0**-106)
