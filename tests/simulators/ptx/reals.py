"""Reals: arithmetic of f32, f64, f16 and bf16, comparisons and choices.

Where rounding to nearest is all there is, LLVM's instructions do; everything else is a function of
``nvidia_real.c``.
"""

from __future__ import annotations

import re

from simulators.ptx.body import REAL, Body, known
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
SMALL = {"f16": 0, "bf16": 1, "e4m3": 2, "e5m2": 3, "tf32": 4, "f32": 5}  # numbers of nvidia_real.c
MODES = {None: "n", "rn": "n", "rz": "z", "rm": "m", "rp": "p", "rna": "a"}
_OPS = {"add": "a", "sub": "b", "mul": "m", "div": "d", "fma": "f", "mad": "f", "sqrt": "s", "rcp": "r",
        "min": "l", "max": "h"}  # fmt: skip
_PLAIN = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}


def _stem(i: Instruction) -> str:
    return i.opcode.partition(".")[0]


def widened(f: Body, operand: str, kind: str) -> str:
    """An operand of a small type as a double."""
    return widened_bits(f, f.bits(operand, 16), 16, kind)


def widened_bits(f: Body, value: str, width: int, kind: str) -> str:
    """The same of bits."""
    bits = value if width == 32 else f.temp(f"zext i{width} {value} to i32")
    return f.call("double", "nv_widen", f"i32 {bits}", f"i32 {SMALL[kind]}")


def narrowed(f: Body, value: str, kind: str, mode: str = "n", flags: int = 0) -> str:
    """Bits (as i32) of a double in a small type.

    Flags: 1 no infinities, 2 negative ones are 0, 4 within 0 and 1, 8 no subnormals.
    """
    return f.call(
        "i32", "nv_narrow", f"double {value}", f"i32 {SMALL[kind]}", f"i32 {ord(mode)}", f"i32 {flags}"
    )


def _pairs(f: Body, operand: str) -> list[str]:
    value = f.bits(operand, 32)
    return [
        f.temp(f"trunc i32 {value} to i16"),
        f.temp(f"trunc i32 {f.temp(f'lshr i32 {value}, 16')} to i16"),
    ]


def joined(f: Body, low: str, high: str) -> str:
    """An instruction that joins two halves, given as i32."""
    return f"or i32 {f.temp(f'shl i32 {high}, 16')}, {f.temp(f'and i32 {low}, 65535')}"


def _saturation(f: Body, i: Instruction, kind: str, value: str) -> str:
    """An instruction that gives ``value`` within 0 and 1; no number becomes 0."""
    real = REAL[kind]
    low = f.call(real, f"llvm.maxnum.{kind}", f"{real} {value}", f"{real} 0.0")
    return f"call {real} @llvm.minnum.{kind}({real} {low}, {real} 1.0)"


_ROUND = r"(?:\.(?P<mode>rn|rz|rm|rp))?(?P<flush>\.ftz)?(?P<sat>\.sat)?\.(?P<kind>f32|f64)"


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
    if m["sat"]:
        text = _saturation(f, i, kind, f.temp(text))
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


_LETTERS = {
    "ex2": "e",
    "lg2": "l",
    "rcp": "r",
    "rsqrt": "q",
    "sqrt": "s",
    "sin": "i",
    "cos": "c",
    "tanh": "t",
}


@means("ex2 lg2 rcp rsqrt sqrt sin cos", r"\.approx(?P<flush>\.ftz)?\.f32")
@means("tanh", r"\.approx(?P<flush>)\.f32")
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


@means("ex2 tanh", r"\.approx(?P<flush>\.ftz)?\.(?P<kind>f16|bf16)(?P<two>x2)?")
def _small_approximation(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    parts = _pairs(f, a) if m["two"] else [f.bits(a, 16)]
    found = [
        f.call("i32", "nv_approximate_small", f"i32 {ord(_LETTERS[_stem(i)])}", f"i32 {SMALL[m['kind']]}",
               f"i32 {f.temp(f'zext i16 {part} to i32')}", f"i32 {int(bool(m['flush']))}")
        for part in parts
    ]  # fmt: skip
    f.put(d, 32, joined(f, *found)) if m["two"] else f.put(d, 16, f"trunc i32 {found[0]} to i16")


_SMALL = r"(?:\.rn)?(?P<flush>\.ftz)?(?P<sat>\.sat)?\.(?P<kind>f16|bf16)(?P<two>x2)?"


@means("add sub mul", _SMALL)
@means("fma", r"\.rn(?P<flush>\.ftz)?(?P<sat>\.sat)?(?P<relu>\.relu)?\.(?P<kind>f16|bf16)(?P<two>x2)?")
@means("min max", r"(?P<flush>\.ftz)?(?P<nan>\.NaN)?(?P<xor>\.xorsign\.abs)?\.(?P<kind>f16|bf16)(?P<two>x2)?")
def _small_arithmetic(f: Body, i: Instruction, m: Match) -> None:
    stem, groups = _stem(i), m.groupdict()
    d, *operands = known(i, 4 if stem == "fma" else 3)
    flags = sum(1 << n for n, g in enumerate(("flush", "sat", "relu", "nan", "xor")) if groups.get(g))
    if m["flush"] and m["kind"] == "bf16":
        raise PtxError(".bf16 has no .ftz")
    columns = [_pairs(f, o) if m["two"] else [f.bits(o, 16)] for o in operands]
    found = []
    for values in zip(*columns, strict=True):
        wide = [f"i32 {f.temp(f'zext i16 {v} to i32')}" for v in values]
        wide += ["i32 0"] * (3 - len(wide))
        found.append(f.call("i32", "nv_arith_small", f"i32 {ord(_OPS[stem])}", f"i32 {SMALL[m['kind']]}",
                            f"i32 {flags}", *wide))  # fmt: skip
    f.put(d, 32, joined(f, *found)) if m["two"] else f.put(d, 16, f"trunc i32 {found[0]} to i16")


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


@means("min max", r"(?P<flush>\.ftz)?(?P<nan>\.NaN)?(?P<xor>\.xorsign\.abs)?\.f32")
@means("min max", r"(?P<flush>)(?P<nan>)(?P<xor>)\.f64")
def _extreme(f: Body, i: Instruction, m: Match) -> None:
    """-0 is below +0. Of a number and none the number is taken, but with ``.NaN``."""
    d, a, b = known(i, 3)
    kind, letter = ("f32", "f") if i.opcode.endswith("f32") else ("f64", "d")
    real = REAL[kind]
    flags = sum(1 << n for n, g in enumerate(("flush", "nan", "xor")) if m[g])
    value = f.call(real, f"nv_extreme_{letter}", f"i32 {int(_stem(i) == 'max')}", f"i32 {flags}",
                   *(f"{real} {f.real(o, kind)}" for o in (a, b)))  # fmt: skip
    f.put(d, int(kind[1:]), f"bitcast {real} {value} to i{kind[1:]}")


@means("testp", r"\.(?P<test>finite|infinite|number|notanumber|normal|subnormal)\.(?P<kind>f32|f64)")
def _class(f: Body, i: Instruction, m: Match) -> None:
    p, a = known(i, 2)
    masks = {"finite": 504, "infinite": 516, "number": 1020, "notanumber": 3, "normal": 264, "subnormal": 144}
    real = REAL[m["kind"]]
    value = f.call(
        "i1", f"llvm.is.fpclass.{m['kind']}", f"{real} {f.real(a, m['kind'])}", f"i32 {masks[m['test']]}"
    )
    f.put_value(p, 1, value)


# ---- comparisons ----

_ORDERED = {"eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "equ": "ueq",
            "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge", "num": "ord",
            "nan": "uno"}  # fmt: skip
_SIGNED = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge", "lo": "ult",
             "ls": "ule", "hi": "ugt", "hs": "uge"}  # fmt: skip
_COMPARE = (r"\.(?P<test>eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan)"
            r"(?:\.(?P<with>and|or|xor))?(?P<flush>\.ftz)?{}"
            r"\.(?P<kind>[bsu](?:16|32|64)|f16|bf16|f32|f64)")  # fmt: skip


def _compared(f: Body, i: Instruction, m: Match, a: str, b: str) -> str:
    kind, test = m["kind"], m["test"]
    if kind in ("f16", "bf16"):
        values = [f.bits(o, 16) for o in (a, b)]
        if m["flush"]:
            values = [_flushed(f, v, kind) for v in values]
        left, right = (widened_bits(f, v, 16, kind) for v in values)
        return f.temp(f"fcmp {_ORDERED[test]} double {left}, {right}")
    if kind[0] == "f":
        values = [f.bits(o, int(kind[1:])) for o in (a, b)]
        if m["flush"]:
            values = [_flushed(f, v, kind) for v in values]
        left, right = (f.temp(f"bitcast i{kind[1:]} {v} to {REAL[kind]}") for v in values)
        return f.temp(f"fcmp {_ORDERED[test]} {REAL[kind]} {left}, {right}")
    tests = _SIGNED if kind[0] == "s" else _UNSIGNED
    if test not in tests or (kind[0] == "b" and test not in ("eq", "ne")):
        raise PtxError(f"no comparison .{test} of .{kind}")
    n = int(kind[1:])
    return f.temp(f"icmp {tests[test]} i{n} {f.bits(a, n)}, {f.bits(b, n)}")


@means("setp", _COMPARE.format(""))
def _set_predicate(f: Body, i: Instruction, m: Match) -> None:
    results, a, b, *c = known(i, 4 if m["with"] else 3)
    value = _compared(f, i, m, a, b)
    names = results.split("|")
    values = [value]
    if len(names) == 2:
        values.append(f.temp(f"xor i1 {value}, true"))
    other = f.predicate(c[0]) if c else ""
    for name, given in zip(names, values, strict=True):
        f.put(name.strip(), 1, f"{m['with']} i1 {given}, {other}" if other else f"bitcast i1 {given} to i1")


@means("set", _COMPARE.format(r"\.(?P<result>u32|s32|f32)"))
def _set(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, *c = known(i, 4 if m["with"] else 3)
    value = _compared(f, i, m, a, b)
    if c:
        value = f.temp(f"{m['with']} i1 {value}, {f.predicate(c[0])}")
    yes = 0x3F800000 if m["result"] == "f32" else 0xFFFFFFFF
    f.put(d, 32, f"select i1 {value}, i32 {yes}, i32 0")


@means("selp", r"\.(?P<kind>[bsuf](?P<bits>16|32|64))")
def _selected(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, p = known(i, 4)
    n = int(m["bits"])
    f.put(d, n, f"select i1 {f.predicate(p)}, i{n} {f.bits(a, n)}, i{n} {f.bits(b, n)}")


@means("slct", r"(?P<flush>\.ftz)?\.[bsuf](?P<bits>16|32|64)\.(?P<by>s32|f32)")
def _chosen_by_sign(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, c = known(i, 4)
    n = int(m["bits"])
    value = f.bits(c, 32)
    if m["flush"]:
        value = f.call("i32", "nv_flush", f"i32 {value}")
    test = (f.temp(f"icmp sge i32 {value}, 0") if m["by"] == "s32"
            else f.temp(f"fcmp oge float {f.temp(f'bitcast i32 {value} to float')}, 0.0"))  # fmt: skip
    f.put(d, n, f"select i1 {test}, i{n} {f.bits(a, n)}, i{n} {f.bits(b, n)}")
