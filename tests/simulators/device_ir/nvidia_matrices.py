"""NVIDIA's matrices: ``wmma``, whose fragments no program may look into."""

from __future__ import annotations

import re

from simulators.device_ir.host_form import Declared, Rule, type_of

_KINDS = {"f16": 0, "bf16": 1, "f32": 2, "f64": 3, "s8": 4, "u8": 5, "s32": 6}
_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "s8": 1, "u8": 1, "s32": 4}
_IR_BYTES = {"<2 x half>": 4, "i32": 4, "float": 4, "double": 8}
_ROOM = 64  # bytes: no fragment is larger

EXTERNALS = """
declare void @nv_wmma_load(ptr, i32, ptr, i32, i32, i32, i32, i32)
declare void @nv_wmma_store(ptr, i32, ptr, i32, i32, i32, i32, i32)
declare void @nv_wmma_multiply(ptr, i32, ptr, i32, i32, i32, i32, i32)
"""


_ALL_COME = "  call void @nv_warp_sync(i32 -1, i32 %site, i32 %depth)\n"  # as `.sync` says


def _members(kind: str) -> list[str]:
    """The types that a fragment's type holds."""
    return [type_of(k.strip()) for k in kind.strip("{} ").split(",")] if kind.startswith("{") else [kind]


def _bytes(kinds: list[str]) -> int:
    return sum(_IR_BYTES[kind] for kind in kinds)


def _matrix(match: re.Match[str]) -> tuple[int, int]:
    m, n, k = (int(match[i]) for i in "mnk")
    return {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[match["which"]]


def _load(match: re.Match[str], function: Declared) -> str:
    rows, columns = _matrix(match)
    count = _bytes(_members(function.result)) // _BYTES[match["kind"]]
    return (
        f"{_ALL_COME}  %f = alloca {function.result}, align 16\n"
        f"  call void @nv_wmma_load(ptr %f, i32 {count}, ptr %0, i32 %1, "
        f"i32 {_KINDS[match['kind']]}, i32 {rows}, i32 {columns}, i32 {int(match['layout'] == 'col')})\n"
        f"  %r = load {function.result}, ptr %f\n  ret {function.result} %r"
    )


def _packed(kinds: list[str], first: int, at: int) -> str:
    """Stores of the parameters from ``first`` on into ``%f``, from byte ``at`` on."""
    text = ""
    for n, kind in enumerate(kinds):
        text += f"  %p{first + n} = getelementptr i8, ptr %f, i64 {at}\n"
        text += f"  store {kind} %{first + n}, ptr %p{first + n}\n"
        at += _IR_BYTES[kind]
    return text


def _store(match: re.Match[str], function: Declared) -> str:
    rows, columns = _matrix(match)
    kinds = list(function.arguments[1:-1])
    return (
        f"{_ALL_COME}  %f = alloca [{_ROOM} x i8], align 16\n{_packed(kinds, 1, 0)}"
        f"  call void @nv_wmma_store(ptr %f, i32 {_bytes(kinds) // _BYTES[match['kind']]}, ptr %0, "
        f"i32 %{len(kinds) + 1}, i32 {_KINDS[match['kind']]}, i32 {rows}, i32 {columns}, "
        f"i32 {int(match['layout'] == 'col')})\n  ret void"
    )


def _kinds_of(match: re.Match[str]) -> tuple[str, str, str]:
    """Of A and B, of C, of D."""
    words = match["kinds"].split(".")
    if len(words) == 2:  # f16 has two forms of D and C
        return "f16", words[1], words[0]
    wide = {"s8": "s32", "u8": "s32", "bf16": "f32", "f64": "f64"}[words[0]]
    return words[0], wide, wide


def _multiply(match: re.Match[str], function: Declared) -> str:
    m, n, k = (int(match[i]) for i in "mnk")
    operand, addend, result = _kinds_of(match)
    parts, left = [], list(function.arguments)
    addends = _bytes(_members(function.result)) * _BYTES[addend] // _BYTES[result]
    given = {"A": m * k, "B": k * n}
    for which in "AB":  # a matrix of f16 is there twice
        size = (
            given[which]
            // 32
            * _BYTES[operand]
            * (2 if operand in ("f16", "bf16") and m * n * k == 4096 else 1)
        )
        taken = []
        while _bytes(taken) < size:
            taken.append(left.pop(0))
        parts.append(taken)
    parts.append(left)
    assert _bytes(left) == addends, match[0]
    text, first = f"  %f = alloca [{3 * _ROOM} x i8], align 16\n", 0
    for number, part in enumerate(parts):
        text += _packed(part, first, number * _ROOM)
        first += len(part)
    shape = m << 16 | n << 8 | k
    kinds = _KINDS[operand] << 16 | _KINDS[addend] << 8 | _KINDS[result]
    return (
        f"{text}  %d = alloca {function.result}, align 16\n"
        f"  call void @nv_wmma_multiply(ptr %f, i32 {_ROOM}, ptr %d, "
        f"i32 {_bytes(_members(function.result))}, i32 {shape}, i32 {kinds}, i32 %site, i32 %depth)\n"
        f"  %r = load {function.result}, ptr %d\n  ret {function.result} %r"
    )


_SHAPE = r"llvm\.nvvm\.wmma\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\."
_MEMORY = r"(?P<layout>row|col)\.stride\.(?P<kind>f16|bf16|f32|f64|s8|u8|s32)\.p0"
RULES = (
    Rule(pattern=rf"{_SHAPE}load\.(?P<which>[abc])\.{_MEMORY}", body=_load, together=True),
    Rule(pattern=rf"{_SHAPE}store\.(?P<which>d)\.{_MEMORY}", body=_store, together=True),
    Rule(
        pattern=rf"{_SHAPE}mma\.(?:row|col)\.(?:row|col)\.(?P<kinds>f(?:16|32)\.f(?:16|32)|s8|u8|bf16|f64)",
        body=_multiply,
        together=True,
    ),
)
