"""Floating-point instructions: arithmetic of f32, f64, f16 and bf16, comparisons and choices.

LLVM's instructions are enough for rounding to nearest; everything else is a function of ``nvidia_real.c``.
"""

from __future__ import annotations

import re

from simulators.ptx.body import REAL, Body, known
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
SMALL = {"f16": 0, "bf16": 1, "f32": 2}  # numbers of nvidia_real.c
MODES = {None: "n", "rn": "n", "rz": "z", "rm": "m", "rp": "p"}
_OPS = {"add": "a", "sub": "b", "mul": "m", "div": "d", "fma": "f", "mad": "f", "sqrt": "s", "rcp": "r",
        "min": "l", "max": "h"}  # fmt: skip
_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _stem(i: Instruction) -> str:
    return i.opcode.partition(".")[0]


def widened(f: Body, bits: str, kind: str) -> str:
    """Return a double of the bits of a small type."""
    return f.call("double", "nv_widen", f"i32 {f.temp(f'zext i16 {bits} to i32')}", f"i32 {SMALL[kind]}")


def narrowed(f: Body, value: str, kind: str, mode: str = "n", flags: int = 0) -> str:
    """Bits (as i32) of a double in a small type.

    Flags: 1 saturate to the range from 0 to 1, 2 no subnormals.
    """
    return f.call(
        "i32", "nv_narrow", f"double {value}", f"i32 {SMALL[kind]}", f"i32 {ord(mode)}", f"i32 {flags}"
    )


_ROUND = r"(?:\.(?P<mode>rn|rz|rm|rp))?(?P<flush>\.ftz)?\.(?P<kind>f32|f64)"


@means("add sub mul div", _ROUND)
@means("fma mad", _ROUND)
def _arithmetic(f: Body, i: Instruction, m: Match) -> None:
    """Without a mode, ``add``, ``sub`` and ``mul`` round to nearest, or are fused: here they are not."""
    stem, kind, mode = _stem(i), m["kind"], MODES[m["mode"]]
    if m["mode"] is None and stem in ("div", "fma", "mad"):
        raise PtxError("a rounding mode is missing")
    fused = stem in ("fma", "mad")
    d, *operands = known(i, 4 if fused else 3)
    real = REAL[kind]
    values = [f.real(o, kind) for o in operands]
    if mode == "n" and not m["flush"]:
        if fused:
            text = f"call {real} @llvm.fma.{kind}({', '.join(f'{real} {v}' for v in values)})"
            f.needs.setdefault(f"llvm.fma.{kind}", f"declare {real} @llvm.fma.{kind}({real}, {real}, {real})")
        else:
            text = f"{_PLAIN[stem]} {real} {values[0]}, {values[1]}"
    else:
        text = _exact(f, stem, kind, mode, bool(m["flush"]), values)
    f.put_real(d, kind, text)


def _exact(f: Body, stem: str, kind: str, mode: str, flush: bool, values: list[str]) -> str:
    real = REAL[kind]
    if stem == "sub":
        values, stem = [values[0], f.temp(f"fneg {real} {values[1]}")], "add"
    if stem == "rcp":
        values, stem = ["1.0", values[0]], "div"
    values += ["0.0"] * (3 - len(values))
    code = ord(mode) + (256 if flush else 0)
    return (f"call {real} @nv_arith_{'f' if kind == 'f32' else 'd'}(i32 {ord(_OPS[stem])}, i32 {code}, "
            f"{', '.join(f'{real} {v}' for v in values)})")  # fmt: skip


@means("rcp sqrt", r"\.(?P<mode>rn|rz|rm|rp)(?P<flush>\.ftz)?\.(?P<kind>f32|f64)")
def _root(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    values = [f.real(a, m["kind"])]
    f.put_real(d, m["kind"], _exact(f, _stem(i), m["kind"], MODES[m["mode"]], bool(m["flush"]), values))


@means("div", r"\.(?P<how>approx|full)(?P<flush>\.ftz)?\.f32")
def _coarse_quotient(f: Body, i: Instruction, m: Match) -> None:
    """Exact here, but that ``approx`` gives 0 for divisors above 2**126."""
    d, a, b = known(i, 3)
    values = [f.real(o, "f32") for o in (a, b)]
    name = "nv_divide_coarsely"
    value = f.call("float", name, *(f"float {v}" for v in values), f"i32 {int(bool(m['flush']))}",
                   f"i32 {int(m['how'] == 'approx')}")  # fmt: skip
    f.put(d, 32, f"bitcast float {value} to i32")


_LETTERS = {"ex2": "e", "lg2": "l", "rcp": "r", "rsqrt": "q", "sqrt": "s", "sin": "i", "cos": "c"}


@means("ex2 lg2 rcp rsqrt sqrt sin cos", r"\.approx(?P<flush>\.ftz)?\.f32")
def _approximation(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    code, flush = ord(_LETTERS[_stem(i)]), int(bool(m["flush"]))
    value = f.call("float", "nv_approximate", f"i32 {code}", f"i32 {flush}", f"float {f.real(a, 'f32')}")
    f.put(d, 32, f"bitcast float {value} to i32")


@means("rcp rsqrt", r"\.approx\.ftz\.f64")
def _upper_half(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    value = f.call(
        "double", "nv_approximate_d", f"i32 {ord(_LETTERS[_stem(i)])}", f"double {f.real(a, 'f64')}"
    )
    f.put(d, 64, f"bitcast double {value} to i64")


@means("rsqrt", r"\.approx\.f64")
def _root_of_doubles(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    value = f.call("double", "nv_arith_d", f"i32 {ord('q')}", f"i32 {ord('n')}", f"double {f.real(a, 'f64')}",
                   "double 0.0", "double 0.0")  # fmt: skip
    f.put(d, 64, f"bitcast double {value} to i64")


@means("add sub mul fma", r"(?:\.rn)?\.(?P<kind>f16|bf16)")
@means("min max", r"(?:\.NaN)?\.(?P<kind>f16|bf16)")
def _small_arithmetic(f: Body, i: Instruction, m: Match) -> None:
    stem = _stem(i)
    d, *operands = known(i, 4 if stem == "fma" else 3)
    wide = [f"i32 {f.temp(f'zext i16 {f.bits(o, 16)} to i32')}" for o in operands]
    wide += ["i32 0"] * (3 - len(wide))
    nan = f"i32 {int('.NaN' in i.opcode)}"
    value = f.call("i32", "nv_arith_small", f"i32 {ord(_OPS[stem])}", f"i32 {SMALL[m['kind']]}", nan, *wide)
    f.put(d, 16, f"trunc i32 {value} to i16")


def _flushed(f: Body, value: str, kind: str) -> str:
    """Bits with 0 for a subnormal; bf16 has no such modifier, f64 neither."""
    if kind == "f32":
        return f.call("i32", "nv_flush", f"i32 {value}")
    if kind != "f16":
        raise PtxError(f".{kind} has no .ftz")
    small = f.temp(f"icmp eq i16 {f.temp(f'and i16 {value}, 31744')}, 0")
    return f.temp(f"select i1 {small}, i16 {f.temp(f'and i16 {value}, -32768')}, i16 {value}")


@means("neg abs", r"(?P<flush>\.ftz)?\.(?P<kind>f32|f64|f16|f16x2|bf16|bf16x2)")
def _sign(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    kind = m["kind"]
    width = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}.get(kind, 32)
    value = f.bits(a, width)
    if m["flush"]:
        value = _flushed(f, value, kind)
    top = 0x80008000 if kind.endswith("x2") else 1 << (width - 1)
    mask = top if _stem(i) == "neg" else (1 << width) - 1 - top
    f.put(d, width, f"{'xor' if _stem(i) == 'neg' else 'and'} i{width} {value}, {mask}")


@means("copysign", r"\.(?P<kind>f32|f64)")
def _copied_sign(f: Body, i: Instruction, m: Match) -> None:
    """The sign is that of the first."""
    d, a, b = known(i, 3)
    n = int(m["kind"][1:])
    sign = f.temp(f"and i{n} {f.bits(a, n)}, {1 << (n - 1)}")
    f.put(d, n, f"or i{n} {f.temp(f'and i{n} {f.bits(b, n)}, {(1 << (n - 1)) - 1}')}, {sign}")


@means("min max", r"(?P<flush>\.ftz)?(?P<nan>\.NaN)?\.f32")
def _extreme(f: Body, i: Instruction, m: Match) -> None:
    """-0 is below +0. Of a number and NaN the result is the number, except with ``.NaN``."""
    d, a, b = known(i, 3)
    value = f.call("float", "nv_extreme_f", f"i32 {int(_stem(i) == 'max')}", f"i32 {int(bool(m['flush']))}",
                   f"i32 {int(bool(m['nan']))}", *(f"float {f.real(o, 'f32')}" for o in (a, b)))  # fmt: skip
    f.put(d, 32, f"bitcast float {value} to i32")


@means("min max", r"\.f64")
def _extreme_of_doubles(f: Body, i: Instruction, m: Match) -> None:
    d, a, b = known(i, 3)
    value = f.call("double", "nv_extreme_d", f"i32 {int(_stem(i) == 'max')}",
                   *(f"double {f.real(o, 'f64')}" for o in (a, b)))  # fmt: skip
    f.put(d, 64, f"bitcast double {value} to i64")


# ---- comparisons ----

_ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq",
            "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord",
            "nan": "uno"}  # fmt: skip
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "lo": "ult",
             "ls": "ule", "hi": "ugt", "hs": "uge"}  # fmt: skip


@means("setp", r"\.(?P<test>eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan)(?P<flush>\.ftz)?"
               r"\.(?P<kind>[bsu](?:16|32|64)|f16|bf16|f32|f64)")  # fmt: skip
def _set_predicate(f: Body, i: Instruction, m: Match) -> None:
    p, a, b = known(i, 3)
    kind, test = m["kind"], m["test"]
    n = 16 if kind == "bf16" else int(kind[1:])
    left, right = (f.bits(o, n) for o in (a, b))
    if "f" not in kind:
        tests = _SIGNED if kind[0] == "s" else _UNSIGNED
        if test not in tests or (kind[0] == "b" and test not in ("eq", "ne")):
            raise PtxError(f"no comparison .{test} of .{kind}")
        f.put(p, 1, f"icmp {tests[test]} i{n} {left}, {right}")
        return
    if m["flush"]:
        left, right = (_flushed(f, v, kind) for v in (left, right))
    if n == 16:
        left, right, real = *(widened(f, v, kind) for v in (left, right)), "double"
    else:
        left, right, real = *(f.temp(f"bitcast i{n} {v} to {REAL[kind]}") for v in (left, right)), REAL[kind]
    f.put(p, 1, f"fcmp {_ORDERED[test]} {real} {left}, {right}")


@means("selp", r"\.(?P<kind>[bsuf](?P<bits>16|32|64))")
def _selected(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, p = known(i, 4)
    n = int(m["bits"])
    f.put(d, n, f"select i1 {f.predicate(p)}, i{n} {f.bits(a, n)}, i{n} {f.bits(b, n)}")
