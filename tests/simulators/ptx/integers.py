"""Integer instructions: arithmetic, bits and shifts, also with shift amounts and divisors out of range."""

from __future__ import annotations

import re

from simulators.ptx.body import POISON, Body, known
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
_CARRY = "%CC.CF"
_KIND = r"\.(?P<sign>[su])(?P<bits>16|32|64)"


def _stem(i: Instruction) -> str:
    return i.opcode.partition(".")[0]


@means("add sub", _KIND)
def _plain(f: Body, i: Instruction, m: Match) -> None:
    d, a, b = known(i, 3)
    n = int(m["bits"])
    f.put(d, n, f"{_stem(i)} i{n} {f.bits(a, n)}, {f.bits(b, n)}")


@means("mul", rf"\.(?P<part>lo|hi|wide){_KIND}")
@means("mad", rf"\.(?P<part>lo|hi|wide){_KIND}")
def _product(f: Body, i: Instruction, m: Match) -> None:
    n, part = int(m["bits"]), m["part"]
    d, a, b, *c = known(i, 4 if _stem(i) == "mad" else 3)
    left, right = f.bits(a, n), f.bits(b, n)
    if part == "lo":
        if not c:
            f.put(d, n, f"mul i{n} {left}, {right}")
            return
        f.put(d, n, f"add i{n} {f.temp(f'mul i{n} {left}, {right}')}, {f.bits(c[0], n)}")
        return
    extend = "sext" if m["sign"] == "s" else "zext"
    wide = [f.temp(f"{extend} i{n} {value} to i{2 * n}") for value in (left, right)]
    if part == "wide" and n == 64:
        raise PtxError("a product of 64 bits has no wider type")
    text = f"mul i{2 * n} {wide[0]}, {wide[1]}"
    if part == "wide":
        f.put(d, 2 * n, f"add i{2 * n} {f.temp(text)}, {f.bits(c[0], 2 * n)}" if c else text)
        return
    high = f"trunc i{2 * n} {f.temp(f'lshr i{2 * n} {f.temp(text)}, {n}')} to i{n}"
    f.put(d, n, f"add i{n} {f.temp(high)}, {f.bits(c[0], n)}" if c else high)


@means("add addc sub subc", r"(?P<cc>\.cc)?\.[su](?P<bits>32|64)")
@means("mad madc", r"\.(?P<part>lo|hi)(?P<cc>\.cc)?\.(?P<sign>[su])(?P<bits>32|64)")
def _with_carry(f: Body, i: Instruction, m: Match) -> None:
    """``CC.CF`` is a register of its own; subtractions borrow with it."""
    n, stem = int(m["bits"]), _stem(i)
    product = stem in ("mad", "madc")
    d, a, b, *c = known(i, 4 if product else 3)
    left, right = f.bits(a, n), f.bits(b, n)
    if product:
        extend = "sext" if m["sign"] == "s" else "zext"
        wide = [f.temp(f"{extend} i{n} {v} to i{2 * n}") for v in (left, right)]
        whole = f.temp(f"mul i{2 * n} {wide[0]}, {wide[1]}")
        if m["part"] == "hi":
            whole = f.temp(f"lshr i{2 * n} {whole}, {n}")
        left, right = f.temp(f"trunc i{2 * n} {whole} to i{n}"), f.bits(c[0], n)
    op = "sub" if stem.startswith("sub") else "add"
    w = n + 8
    total = f.temp(f"{op} i{w} {f.temp(f'zext i{n} {left} to i{w}')}, {f.temp(f'zext i{n} {right} to i{w}')}")
    f.function.registers.setdefault(_CARRY, 1)
    if stem.endswith("c"):
        carry = f.temp(f"zext i1 {f.bits(_CARRY, 1)} to i{w}")
        total = f.temp(f"{op} i{w} {total}, {carry}")
    if m["cc"]:
        f.put(_CARRY, 1, f"trunc i{w} {f.temp(f'lshr i{w} {total}, {n}')} to i1")
    f.put(d, n, f"trunc i{w} {total} to i{n}")


@means("div rem", _KIND)
def _quotient(f: Body, i: Instruction, m: Match) -> None:
    """By zero: some value. The least number by -1: the least number, or 0."""
    d, a, b = known(i, 3)
    n, sign, op = int(m["bits"]), m["sign"], _stem(i)
    left, right = f.bits(a, n), f.bits(b, n)
    zero = f.temp(f"icmp eq i{n} {right}, 0")
    odd = zero
    if sign == "s":
        minus = f.temp(f"icmp eq i{n} {right}, -1")
        odd = f.temp(f"or i1 {zero}, {minus}")
    divisor = f.temp(f"select i1 {odd}, i{n} 1, i{n} {right}")
    result = f.temp(f"{sign}{op} i{n} {left}, {divisor}")
    if sign == "s":
        other = f.temp(f"sub i{n} 0, {left}") if op == "div" else "0"
        result = f.temp(f"select i1 {minus}, i{n} {other}, i{n} {result}")
    f.put(d, n, f"select i1 {zero}, i{n} {POISON % (1 << n)}, i{n} {result}")


@means("min max", rf"{_KIND}")
def _extreme(f: Body, i: Instruction, m: Match) -> None:
    d, a, b = known(i, 3)
    n = int(m["bits"])
    left, right = f.bits(a, n), f.bits(b, n)
    test = f"{m['sign']}{'lt' if _stem(i) == 'min' else 'gt'}"
    f.put(d, n, f"select i1 {f.temp(f'icmp {test} i{n} {left}, {right}')}, i{n} {left}, i{n} {right}")


@means("abs", r"\.s(?P<bits>16|32|64)")
def _absolute(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    n = int(m["bits"])
    value = f.bits(a, n)
    less = f.temp(f"icmp slt i{n} {value}, 0")
    f.put(d, n, f"select i1 {less}, i{n} {f.temp(f'sub i{n} 0, {value}')}, i{n} {value}")


@means("neg", r"\.s(?P<bits>16|32|64)")
def _negated(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    n = int(m["bits"])
    f.put(d, n, f"sub i{n} 0, {f.bits(a, n)}")


@means("and or xor", r"\.(?P<bits>pred|b16|b32|b64)")
def _logic(f: Body, i: Instruction, m: Match) -> None:
    d, a, b = known(i, 3)
    n = 1 if m["bits"] == "pred" else int(m["bits"][1:])
    f.put(d, n, f"{_stem(i)} i{n} {f.bits(a, n)}, {f.bits(b, n)}")


@means("not", r"\.(?P<bits>pred|b16|b32|b64)")
def _not(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    n = 1 if m["bits"] == "pred" else int(m["bits"][1:])
    f.put(d, n, f"xor i{n} {f.bits(a, n)}, -1")


@means("shl shr", r"\.(?P<sign>[bsu])(?P<bits>16|32|64)")
def _shift(f: Body, i: Instruction, m: Match) -> None:
    """Amounts have 32 bits, and those beyond the width count as the width."""
    d, a, b = known(i, 3)
    n, signed = int(m["bits"]), m["sign"] == "s"
    op = "shl" if _stem(i) == "shl" else "ashr" if signed else "lshr"
    value = f.bits(a, n)
    if b.isdigit() and int(b) < n:
        f.put(d, n, f"{op} i{n} {value}, {b}")
        return
    amount = f.bits(b, 32)
    inside = f.temp(f"icmp ult i32 {amount}, {n}")
    small = f.temp(f"select i1 {inside}, i32 {amount}, i32 {n - 1 if signed else 0}")
    if n > 32:
        small = f.temp(f"zext i32 {small} to i{n}")
    elif n < 32:
        small = f.temp(f"trunc i32 {small} to i{n}")
    text = f"{op} i{n} {value}, {small}"
    f.put(d, n, text if signed else f"select i1 {inside}, i{n} {f.temp(text)}, i{n} 0")


@means("shf", r"\.(?P<direction>[lr])\.wrap\.b32")
def _funnel(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, c = known(i, 4)
    amount = f.temp(f"and i32 {f.bits(c, 32)}, 31")
    high, low = (f.temp(f"zext i32 {f.bits(o, 32)} to i64") for o in (b, a))
    both = f.temp(f"or i64 {f.temp(f'shl i64 {high}, 32')}, {low}")
    wide = f.temp(f"zext i32 {amount} to i64")
    if m["direction"] == "l":
        moved = f.temp(f"lshr i64 {f.temp(f'shl i64 {both}, {wide}')}, 32")
    else:
        moved = f.temp(f"lshr i64 {both}, {wide}")
    f.put(d, 32, f"trunc i64 {moved} to i32")


@means("popc clz", r"\.b(?P<bits>32|64)")
def _count(f: Body, i: Instruction, m: Match) -> None:
    """Results have 32 bits; zeros before nothing are all of them."""
    d, a = known(i, 2)
    n = int(m["bits"])
    more = ("i1 false",) if _stem(i) == "clz" else ()
    name = {"popc": "ctpop", "clz": "ctlz"}[_stem(i)]
    value = f.call(f"i{n}", f"llvm.{name}.i{n}", f"i{n} {f.bits(a, n)}", *more)
    f.put(d, 32, f"trunc i{n} {value} to i32" if n > 32 else f"bitcast i32 {value} to i32")


def _wide(f: Body, operand: str, n: int, *, signed: bool = False) -> str:
    value = f.bits(operand, n)
    return value if n == 64 else f.temp(f"{'sext' if signed else 'zext'} i{n} {value} to i64")


@means("bfe", r"\.(?P<sign>[su])(?P<bits>32|64)")
def _field(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, c = known(i, 4)
    n, signed = int(m["bits"]), m["sign"] == "s"
    value = f.call("i64", "nv_bfe", f"i64 {_wide(f, a, n, signed=signed)}", f"i32 {f.bits(b, 32)}",
                   f"i32 {f.bits(c, 32)}", f"i32 {n}", f"i32 {int(signed)}")  # fmt: skip
    f.put(d, n, f"trunc i64 {value} to i32" if n == 32 else f"bitcast i64 {value} to i64")


@means("bfi", r"\.b(?P<bits>32|64)")
def _field_in(f: Body, i: Instruction, m: Match) -> None:
    e, a, b, c, d = known(i, 5)
    n = int(m["bits"])
    value = f.call("i64", "nv_bfi", f"i64 {_wide(f, a, n)}", f"i64 {_wide(f, b, n)}", f"i32 {f.bits(c, 32)}",
                   f"i32 {f.bits(d, 32)}", f"i32 {n}")  # fmt: skip
    f.put(e, n, f"trunc i64 {value} to i32" if n == 32 else f"bitcast i64 {value} to i64")


@means("prmt", r"\.b32")
def _permuted(f: Body, i: Instruction, m: Match) -> None:
    d, *abc = known(i, 4)
    f.put_value(d, 32, f.call("i32", "nv_prmt", *(f"i32 {f.bits(o, 32)}" for o in abc)))
