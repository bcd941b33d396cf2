"""Matrices: ``wmma``, as NVVM's intrinsics of the device IR."""

from __future__ import annotations

import re

from simulators.ptx.body import Body, known, vector
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
_IR = {
    "f16": "<2 x half>",
    "bf16": "i32",
    "f32": "float",
    "f64": "double",
    "s8": "i32",
    "u8": "i32",
    "s32": "i32",
}
_BITS = {"<2 x half>": 32, "i32": 32, "float": 32, "double": 64}
_SHAPE = r"\.(?P<shape>m\d+n\d+k\d+)"
_PLACE = r"(?:\.(?P<space>global|shared))?"


def _struct(kind: str, count: int) -> str:
    return f"{{ {', '.join([kind] * count)} }}" if count > 1 else kind


def _values(f: Body, names: list[str], kind: str) -> list[str]:
    n = _BITS[kind]
    return [f"{kind} {f.temp(f'bitcast i{n} {f.bits(name, n)} to {kind}')}" for name in names]


def _put(f: Body, names: list[str], kind: str, value: str) -> None:
    n = _BITS[kind]
    for number, name in enumerate(names):
        part = (
            f.temp(f"extractvalue {_struct(kind, len(names))} {value}, {number}") if len(names) > 1 else value
        )
        f.put(name, n, f"bitcast {kind} {part} to i{n}")


@means("wmma", rf"\.load\.(?P<which>[abc])\.sync\.aligned\.(?P<layout>row|col){_SHAPE}{_PLACE}\."
               r"(?P<kind>f16|bf16|f32|f64|s8|u8|s32)")  # fmt: skip
def _load(f: Body, i: Instruction, m: Match) -> None:
    d, a, *stride = known(i, (2, 3))
    if not stride:
        raise PtxError("matrices without a stride are not known here")
    names, kind = vector(d), _IR[m["kind"]]
    place = f.pointer(a, m["space"] or "", 16)
    name = f"llvm.nvvm.wmma.{m['shape']}.load.{m['which']}.{m['layout']}.stride.{m['kind']}.p0"
    value = f.call(_struct(kind, len(names)), name, f"ptr {place}", f"i32 {f.bits(stride[0], 32)}")
    _put(f, names, kind, value)


@means("wmma", rf"\.store\.d\.sync\.aligned\.(?P<layout>row|col){_SHAPE}{_PLACE}\.(?P<kind>f16|f32|f64|s32)")
def _store(f: Body, i: Instruction, m: Match) -> None:
    a, d, *stride = known(i, (2, 3))
    if not stride:
        raise PtxError("matrices without a stride are not known here")
    place = f.pointer(a, m["space"] or "", 16)
    name = f"llvm.nvvm.wmma.{m['shape']}.store.d.{m['layout']}.stride.{m['kind']}.p0"
    f.call(
        "void", name, f"ptr {place}", *_values(f, vector(d), _IR[m["kind"]]), f"i32 {f.bits(stride[0], 32)}"
    )


@means("wmma", rf"\.mma\.sync\.aligned\.(?P<layouts>(?:row|col)\.(?:row|col)){_SHAPE}"
               r"(?:\.rn)?\.(?P<kinds>[\w.]+?)")  # fmt: skip
def _multiply(f: Body, i: Instruction, m: Match) -> None:
    """Two types are those of D and C, with A and B of f16; else of D, A, B and C."""
    operands = [vector(o) for o in known(i, 4)]
    kinds = m["kinds"].split(".")
    if len(kinds) == 2:
        result, operand, addend, suffix = kinds[0], "f16", kinds[1], m["kinds"]
    elif len(kinds) == 4 and kinds[1] == kinds[2] and kinds[1] in ("f64", "s8", "u8", "bf16"):
        result, operand, addend, suffix = kinds[0], kinds[1], kinds[3], kinds[1]
    else:
        raise PtxError("types that are not known here")
    values = [v for names, kind in zip(operands[1:], (operand, operand, addend), strict=True)
              for v in _values(f, names, _IR[kind])]  # fmt: skip
    value = f.call(
        _struct(_IR[result], len(operands[0])),
        f"llvm.nvvm.wmma.{m['shape']}.mma.{m['layouts']}.{suffix}",
        *values,
    )
    _put(f, operands[0], _IR[result], value)
