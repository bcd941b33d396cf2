"""Conversions: ``cvt``, ``mov`` and what packs and unpacks."""

from __future__ import annotations

import re

from simulators.ptx.body import REAL, Body, known, vector
from simulators.ptx.reals import MODES, joined, narrowed, widened, widened_bits
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
_WHOLE = {"rni": "n", "rzi": "z", "rmi": "m", "rpi": "p"}


@means("mov", r"\.(?:pred|[bsuf](?P<bits>16|32|64|128))")
def _moved(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    n = int(m["bits"] or 1)
    if d.startswith("{"):
        _unpack(f, vector(d), f.bits(a, n), n)
    elif a.startswith("{"):
        _pack(f, d, vector(a), n)
    else:
        f.put_value(d, n, f.bits(a, n))


def _unpack(f: Body, parts: list[str], value: str, n: int) -> None:
    part = n // len(parts)
    for number, name in enumerate(parts):
        if name != "_":
            moved = f.temp(f"lshr i{n} {value}, {number * part}") if number else value
            f.put(name, part, f"trunc i{n} {moved} to i{part}")


def _pack(f: Body, d: str, parts: list[str], n: int) -> None:
    part = n // len(parts)
    whole = ""
    for number, name in enumerate(parts):
        value = f.temp(f"zext i{part} {f.bits(name, part)} to i{n}")
        if number:
            whole = f.temp(f"or i{n} {whole}, {f.temp(f'shl i{n} {value}, {number * part}')}")
        else:
            whole = value
    f.put_value(d, n, whole)


_INTEGER = r"[su](?:8|16|32|64)"


@means("cvt", rf"(?P<sat>\.sat)?\.(?P<to>{_INTEGER})\.(?P<of>{_INTEGER})")
def _between_integers(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    to, of = int(m["to"][1:]), int(m["of"][1:])
    signed = m["of"][0] == "s"
    value = f.low_bits(a, of)
    if m["sat"]:
        wide = f.temp(f"{'sext' if signed else 'zext'} i{of} {value} to i128")
        low, high = (-(1 << (to - 1)), (1 << (to - 1)) - 1) if m["to"][0] == "s" else (0, (1 << to) - 1)
        for test, edge in (("slt", low), ("sgt", high)):
            wide = f.temp(f"select i1 {f.temp(f'icmp {test} i128 {wide}, {edge}')}, i128 {edge}, i128 {wide}")
        text = f"trunc i128 {wide} to i{to}"
    elif to < of:
        text = f"trunc i{of} {value} to i{to}"
    elif to > of:
        text = f"{'sext' if signed else 'zext'} i{of} {value} to i{to}"
    else:
        text = f"bitcast i{of} {value} to i{to}"
    f.put_extended(d, to, text, signed=m["to"][0] == "s")


@means("cvt", rf"\.(?P<mode>rni|rzi|rmi|rpi)(?P<flush>\.ftz)?(?P<sat>\.sat)?\.(?P<to>{_INTEGER})"
              r"\.(?P<of>f16|bf16|f32|f64)")  # fmt: skip
def _to_integer(f: Body, i: Instruction, m: Match) -> None:
    """Clamped in any case."""
    d, a = known(i, 2)
    to = int(m["to"][1:])
    value = f.call("i64", "nv_convert_to_integer", f"double {_double(f, a, m['of'], bool(m['flush']))}",
                   f"i32 {ord(_WHOLE[m['mode']])}", f"i32 {to}", f"i32 {int(m['to'][0] == 's')}",
                   f"i32 {int(m['of'] == 'f64' or to == 64)}")  # fmt: skip
    text = f"bitcast i64 {value} to i64" if to == 64 else f"trunc i64 {value} to i{to}"
    f.put_extended(d, to, text, signed=m["to"][0] == "s")


def _double(f: Body, operand: str, kind: str, flush: bool) -> str:
    """The exact value of an operand."""
    if kind in ("f16", "bf16"):
        return widened(f, operand, kind)
    if kind == "f64":
        return f.real(operand, "f64")
    bits = f.bits(operand, 32)
    if flush:
        bits = f.call("i32", "nv_flush", f"i32 {bits}")
    return f.temp(f"fpext float {f.temp(f'bitcast i32 {bits} to float')} to double")


@means(
    "cvt",
    rf"\.(?P<mode>rn|rz|rm|rp)(?P<flush>\.ftz)?(?P<sat>\.sat)?\.(?P<to>f16|bf16|f32|f64)\.(?P<of>{_INTEGER})",
)
def _of_integer(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    of, signed, kind = int(m["of"][1:]), m["of"][0] == "s", m["to"]
    value = f.low_bits(a, of)
    if kind in ("f32", "f64") and m["mode"] == "rn" and not m["sat"]:
        f.put_real(d, kind, f"{'s' if signed else 'u'}itofp i{of} {value} to {REAL[kind]}")
        return
    wide = value if of == 64 else f.temp(f"{'sext' if signed else 'zext'} i{of} {value} to i64")
    # 64 bits need not fit a double: what is lost stays in its last bit, below any last place that counts.
    if kind == "f64":
        result = f.call("double", "nv_integer_to_double", f"i64 {wide}", f"i32 {int(signed)}",
                        f"i32 {ord(MODES[m['mode']])}")  # fmt: skip
        f.put(d, 64, f"bitcast double {result} to i64")
        return
    odd = f.call("double", "nv_integer_to_double", f"i64 {wide}", f"i32 {int(signed)}", f"i32 {ord('o')}")
    _put_narrow(f, d, odd, kind, MODES[m["mode"]], 4 if m["sat"] else 0)


def _put_narrow(f: Body, d: str, value: str, kind: str, mode: str, flags: int) -> None:
    bits = narrowed(f, value, kind, mode, flags)
    f.put(d, 32, f"bitcast i32 {bits} to i32") if kind in ("f32", "tf32") else f.put(
        d, 16, f"trunc i32 {bits} to i16"
    )


@means("cvt", r"(?:\.(?P<mode>rna|rni|rzi|rmi|rpi|rn|rz|rm|rp))?(?P<flush>\.ftz)?"
              r"(?P<more>(?:\.(?:relu|satfinite|sat))*)"
              r"\.(?P<to>f16|bf16|f32|f64|tf32)\.(?P<of>f16|bf16|f32|f64)")  # fmt: skip
def _between_reals(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    to, of, mode = m["to"], m["of"], m["mode"]
    value = _double(f, a, of, bool(m["flush"]) and of == "f32")
    widens = {"bf16": 0, "f16": 0, "tf32": 1, "f32": 2, "f64": 3}
    if mode in _WHOLE:
        if to != of:
            raise PtxError("rounding to whole numbers changes the type")
        value = f.call("double", "nv_round", f"double {value}", f"i32 {ord(_WHOLE[mode])}")
    elif widens[to] < widens[of] and mode is None:
        raise PtxError("a rounding mode is missing")
    elif widens[to] >= widens[of] and mode is not None and to not in ("bf16", "f16", "tf32"):
        raise PtxError("a rounding mode where nothing is rounded")
    flags = sum(n for word, n in (("satfinite", 1), ("relu", 2), ("sat", 4)) if word in m["more"].split("."))
    if to == "f64":
        if flags == 4:
            low = f.call("double", "llvm.maxnum.f64", f"double {value}", "double 0.0")
            value = f.call("double", "llvm.minnum.f64", f"double {low}", "double 1.0")
        elif flags:
            raise PtxError("modifiers that doubles do not have")
        f.put(d, 64, f"bitcast double {value} to i64")
        return
    flags |= 8 if m["flush"] and to == "f32" else 0
    _put_narrow(f, d, value, to, MODES.get(mode, "n"), flags)


@means("cvt", r"\.(?P<mode>rn|rz)(?P<more>(?:\.(?:relu|satfinite))*)\.(?P<to>f16x2|bf16x2)\.f32")
@means("cvt", r"\.(?P<mode>rn)(?P<more>\.satfinite(?:\.relu)?)\.(?P<to>e4m3x2|e5m2x2)\.f32")
def _two_floats(f: Body, i: Instruction, m: Match) -> None:
    """The first operand becomes the upper half."""
    d, a, b = known(i, 3)
    flags = sum(n for word, n in (("satfinite", 1), ("relu", 2)) if word in m["more"].split("."))
    kind = m["to"].removesuffix("x2")
    high, low = (narrowed(f, _double(f, o, "f32", False), kind, MODES[m["mode"]], flags) for o in (a, b))
    if kind[0] == "e":
        up = f.temp(f"shl i32 {high}, 8")
        f.put(d, 16, f"trunc i32 {f.temp(f'or i32 {up}, {low}')} to i16")
    else:
        f.put(d, 32, joined(f, low, high))


@means("cvt", r"\.rn(?P<more>\.satfinite(?:\.relu)?)\.(?P<to>e4m3x2|e5m2x2)\.f16x2")
def _two_halves(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    flags = sum(n for word, n in (("satfinite", 1), ("relu", 2)) if word in m["more"].split("."))
    value, kind = f.bits(a, 32), m["to"].removesuffix("x2")
    low = f.temp(f"and i32 {value}, 65535")
    high = f.temp(f"lshr i32 {value}, 16")
    small = [narrowed(f, widened_bits(f, v, 32, "f16"), kind, "n", flags) for v in (low, high)]
    up = f.temp(f"shl i32 {small[1]}, 8")
    f.put(d, 16, f"trunc i32 {f.temp(f'or i32 {up}, {small[0]}')} to i16")


@means("cvt", r"\.rn(?P<relu>\.relu)?\.f16x2\.(?P<of>e4m3x2|e5m2x2)")
def _two_bytes(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    value, kind = f.temp(f"zext i16 {f.bits(a, 16)} to i32"), m["of"].removesuffix("x2")
    low = f.temp(f"and i32 {value}, 255")
    high = f.temp(f"lshr i32 {value}, 8")
    halves = [
        narrowed(f, widened_bits(f, v, 32, kind), "f16", "n", 2 if m["relu"] else 0) for v in (low, high)
    ]
    f.put(d, 32, joined(f, *halves))
