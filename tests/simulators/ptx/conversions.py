"""Conversions: ``cvt``, and ``mov``, which also packs and unpacks."""

from __future__ import annotations

import re

from simulators.ptx.body import REAL, Body, known, vector
from simulators.ptx.reals import MODES, narrowed, widened
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


@means("cvt", rf"\.(?P<to>{_INTEGER})\.(?P<of>{_INTEGER})")
def _between_integers(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    to, of = int(m["to"][1:]), int(m["of"][1:])
    op = "trunc" if to < of else "bitcast" if to == of else "sext" if m["of"][0] == "s" else "zext"
    text = f"{op} i{of} {f.low_bits(a, of)} to i{to}"
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
        return widened(f, f.bits(operand, 16), kind)
    if kind == "f64":
        return f.real(operand, "f64")
    bits = f.bits(operand, 32)
    if flush:
        bits = f.call("i32", "nv_flush", f"i32 {bits}")
    return f.temp(f"fpext float {f.temp(f'bitcast i32 {bits} to float')} to double")


@means("cvt", rf"\.rn\.(?P<to>f16|bf16|f32|f64)\.(?P<of>{_INTEGER})")
def _of_integer(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    of, signed, kind = int(m["of"][1:]), m["of"][0] == "s", m["to"]
    value = f.low_bits(a, of)
    if kind in ("f32", "f64"):
        f.put_real(d, kind, f"{'s' if signed else 'u'}itofp i{of} {value} to {REAL[kind]}")
        return
    wide = value if of == 64 else f.temp(f"{'sext' if signed else 'zext'} i{of} {value} to i64")
    odd = f.call("double", "nv_integer_to_odd_double", f"i64 {wide}", f"i32 {int(signed)}")
    _put_narrow(f, d, odd, kind, "n", 0)


def _put_narrow(f: Body, d: str, value: str, kind: str, mode: str, flags: int) -> None:
    bits = narrowed(f, value, kind, mode, flags)
    f.put(d, 32, f"bitcast i32 {bits} to i32") if kind == "f32" else f.put(d, 16, f"trunc i32 {bits} to i16")


@means("cvt", r"(?:\.(?P<mode>rni|rzi|rmi|rpi|rn|rz|rm|rp))?(?P<flush>\.ftz)?(?P<sat>\.sat)?"
              r"\.(?P<to>f16|bf16|f32|f64)\.(?P<of>f16|bf16|f32|f64)")  # fmt: skip
def _between_reals(f: Body, i: Instruction, m: Match) -> None:
    d, a = known(i, 2)
    to, of, mode = m["to"], m["of"], m["mode"]
    value = _double(f, a, of, bool(m["flush"]) and of == "f32")
    widens = {"bf16": 0, "f16": 0, "f32": 1, "f64": 2}
    if mode in _WHOLE:
        if to != of:
            raise PtxError("rounding to whole numbers changes the type")
        value = f.call("double", "nv_round", f"double {value}", f"i32 {ord(_WHOLE[mode])}")
    elif widens[to] < widens[of] and mode is None:
        raise PtxError("a rounding mode is missing")
    elif widens[to] >= widens[of] and mode is not None and to not in ("bf16", "f16"):
        raise PtxError("a rounding mode where nothing is rounded")
    if to == "f64":
        if m["sat"]:
            raise PtxError("doubles are not saturated")
        f.put(d, 64, f"bitcast double {value} to i64")
        return
    _put_narrow(
        f, d, value, to, MODES.get(mode, "n"), bool(m["sat"]) + 2 * (bool(m["flush"]) and to == "f32")
    )
