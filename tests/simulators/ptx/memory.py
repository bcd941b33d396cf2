"""Memory: loads, stores, atomic operations, and conversions of addresses between spaces.

One work-item runs at a time, and only between instructions another one continues. Memory order and scope
therefore have no effect.
"""

from __future__ import annotations

import re

from simulators.ptx.body import REAL, SHARED_BASE, TAGS, Body, known, vector
from simulators.ptx.reals import SMALL
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
_SPACES = r"(?:\.(?P<space>global|shared::cta|shared|local|const|param::entry|param::func|param))?"
_SCOPE = r"\.(?:cta|cluster|gpu|sys)"
_CACHED = r"(?:\.(?:ca|cg|cs|lu|cv|wb|wt))?(?:\.L1::\w+)?(?:\.L2::\w+)*"
_TYPE = r"(?:\.v(?P<count>2|4|8))?\.(?P<kind>[bsu](?:8|16|32|64|128)|f32|f64)"


def _space(m: Match) -> str:
    return (m["space"] or "").partition("::")[0]


@means("ld", rf"(?:\.(?:weak|volatile)|\.(?:relaxed|acquire){_SCOPE})?{_SPACES}(?:\.nc)?{_CACHED}{_TYPE}")
@means("ldu", rf"{_SPACES}{_TYPE}")
def _load(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    bits, count = int(m["kind"][1:]), int(m["count"] or 1)
    names = vector(d)
    if len(names) != count:
        raise PtxError(f"{len(names)} registers, not {count}")
    size = bits // 8
    pointer = f.pointer(a, _space(m), size * count)
    for number, name in enumerate(names):
        if name == "_":
            continue
        at = f.temp(f"getelementptr i8, ptr {pointer}, i64 {number * size}") if number else pointer
        f.put_extended(
            name, bits, f"load i{bits}, ptr {at}, align {min(size, 8)}", signed=m["kind"][0] == "s"
        )


@means("st", rf"(?:\.(?:weak|volatile)|\.(?:relaxed|release){_SCOPE})?{_SPACES}{_CACHED}{_TYPE}")
def _store(f: Body, i: Instruction, m: Match) -> None:
    a, b = known(i, 2)
    bits, count = int(m["kind"][1:]), int(m["count"] or 1)
    names = vector(b)
    if len(names) != count:
        raise PtxError(f"{len(names)} registers, not {count}")
    size = bits // 8
    pointer = f.pointer(a, _space(m), size * count)
    for number, name in enumerate(names):
        at = f.temp(f"getelementptr i8, ptr {pointer}, i64 {number * size}") if number else pointer
        f.add(f"store i{bits} {f.low_bits(name, bits)}, ptr {at}, align {min(size, 8)}")


_ATOMIC = (
    rf"(?:\.(?:relaxed|acquire|release|acq_rel))?(?:{_SCOPE})?(?:\.(?P<space>global|shared::cta|shared))?"
)
_OPERATION = (r"\.(?P<op>add|and|or|xor|exch|cas|min|max)(?P<noftz>\.noftz)?"
              r"\.(?P<kind>[bsu](?:16|32|64)|f32|f64|f16|bf16)")  # fmt: skip
SMALL_KINDS = ("f16", "bf16")
_ALLOWED = {
    "add": "u32 s32 u64 s64 f32 f64 f16 bf16", "and": "b32 b64", "or": "b32 b64",
    "xor": "b32 b64",
    "exch": "b32 b64 u32 u64 s32 f32 f64", "cas": "b16 b32 b64 u32 u64 s32", "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64",
}  # fmt: skip


@means("atom", _ATOMIC + _OPERATION)
def _atomic(f: Body, i: Instruction, m: Match) -> None:
    d, a, b, *c = known(i, 4 if m["op"] == "cas" else 3)
    op, kind = m["op"], m["kind"]
    if kind not in _ALLOWED[op].split() or (m["noftz"] is not None) != (kind in SMALL_KINDS and op == "add"):
        raise PtxError(f"no .{op} of .{kind}")
    bits = 16 if kind == "bf16" else int(kind[1:])
    pointer = f.pointer(a, _space(m), bits // 8)
    value = f.bits(b, bits)
    old = f.temp(f"load i{bits}, ptr {pointer}")
    if op == "cas":
        same = f.temp(f"icmp eq i{bits} {old}, {value}")
        new = f.temp(f"select i1 {same}, i{bits} {f.bits(c[0], bits)}, i{bits} {old}")
    elif op == "exch":
        new = value
    elif op in ("and", "or", "xor"):
        new = f.temp(f"{op} i{bits} {old}, {value}")
    elif op in ("min", "max"):
        test = f"{kind[0]}{'lt' if op == 'min' else 'gt'}"
        new = f.temp(
            f"select i1 {f.temp(f'icmp {test} i{bits} {old}, {value}')}, i{bits} {old}, i{bits} {value}"
        )
    else:
        new = _sum(f, kind, bits, old, value, in_global=m["space"] == "global")
    f.add(f"store i{bits} {new}, ptr {pointer}")
    if d != "_":
        f.put_value(d, bits, old)


def _sum(f: Body, kind: str, bits: int, old: str, value: str, *, in_global: bool) -> str:
    if kind in REAL:
        if kind == "f32" and in_global:  # where subnormals are 0
            old, value = (f.call("i32", "nv_flush", f"i32 {v}") for v in (old, value))
        left, right = (f.temp(f"bitcast i{bits} {v} to {REAL[kind]}") for v in (old, value))
        total = f.temp(f"bitcast {REAL[kind]} {f.temp(f'fadd {REAL[kind]} {left}, {right}')} to i{bits}")
        return f.call("i32", "nv_flush", f"i32 {total}") if kind == "f32" and in_global else total
    if kind not in SMALL_KINDS:
        return f.temp(f"add i{bits} {old}, {value}")
    wide = [f"i32 {f.temp(f'zext i16 {v} to i32')}" for v in (old, value)]
    total = f.call("i32", "nv_arith_small", f"i32 {ord('a')}", f"i32 {SMALL[kind]}", "i32 0", *wide, "i32 0")
    return f.temp(f"trunc i32 {total} to i16")


@means("cvta", r"(?P<to>\.to)?\.(?P<space>global|shared::cta|shared::cluster|shared|local|const|param)\.u64")
def _address(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    space, value = _space(m), f.bits(a, 64)
    if space == "global":
        f.put_value(d, 64, value)
        return
    offset = SHARED_BASE if space == "shared" else str(-TAGS[space])
    if m["to"]:
        f.put(d, 64, f"sub i64 {value}, {offset}")
    else:
        f.put(d, 64, f"add i64 {value}, {offset}")


@means("membar", r"\.(?:cta|gl|sys)")
@means("fence", r"(?:\.(?:sc|acq_rel|acquire|release))?\.(?:cta|cluster|gpu|sys)")
def _fence(f: Body, i: Instruction, m: Match) -> None:
    known(i, 0)
