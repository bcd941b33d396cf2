"""Integers of widths that SPIR-V lacks, in LLVM IR text: LLVM's code generator widens them and keeps garbage.

Those of fewer than 64 bits become i64, whose upper bits are zero after each operation. Optimisation makes
some for sums over loops; programs may have others.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpubuild.errors import StepError

_WIDE = 64
_LEGAL = (1, 8, 16, 32, 64)
_NAMES = re.compile(r'[%@!#][-\w.$]+|[%@]?"[^"]*"|;.*')
_TYPE = re.compile(r"\bi(\d+)\b")
_OPERATION = re.compile(r"^(\s*%\S+ = )(\w+) (.*)$")
_CAST = re.compile(r"^(?:(?:nuw|nsw|nneg) )*(\w+) (\S+) to (\w+)((?:, !.*)?)$")
_BINARY = re.compile(r"^(?:(?:nuw|nsw|exact|disjoint) )*i(\d+) (\S+), (\S+)$")
_COMPARE = re.compile(r"^(?:samesign )?(\w+) i(\d+) (\S+), (\S+)$")
_SELECT = re.compile(r"^i1 (\S+), i(\d+) (\S+), i\d+ (\S+)$")
_PHI = re.compile(r"^i(\d+) (\[.*\])$")
_INCOMING = re.compile(r"\[ (\S+),")
_FREEZE = re.compile(r"^i(\d+) (\S+)$")
_SIGNED = frozenset({"ashr", "sdiv", "srem"})
_BINARIES = frozenset({"add", "sub", "mul", "shl", "and", "or", "xor", "lshr", "udiv", "urem"}) | _SIGNED
_CASTS = frozenset({"zext", "sext", "trunc", "uitofp", "sitofp", "fptoui", "fptosi"})


def widen(text: str) -> str:
    """Return LLVM IR text without such integers. Raises ``StepError`` for what stays."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if _odd(line):
            lines[number] = "\n".join(_Line(number).widened(line))
    return "\n".join(lines)


def _odd(line: str) -> set[int]:
    return {int(width) for width in _TYPE.findall(_NAMES.sub("", line))} - set(_LEGAL)


class _Line:
    """The lines that replace one, whose ``number`` makes names unique."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lines: list[str] = []

    def widened(self, line: str) -> list[str]:
        match = _OPERATION.match(line.split(", !dbg", maxsplit=1)[0])
        if match is None or max(_odd(line)) > _WIDE:
            raise _refused(line)
        result, operation, rest = match.groups()
        by_form: tuple[tuple[bool, re.Pattern[str], Callable[..., tuple[str, int]]], ...] = (
            (operation in _CASTS, _CAST, self._cast),
            (operation in _BINARIES, _BINARY, self._binary),
            (operation == "icmp", _COMPARE, self._compare),
            (operation == "select", _SELECT, self._select),
            (operation == "phi", _PHI, self._phi),
            (operation == "freeze", _FREEZE, self._freeze),
        )
        for fits, form, widen_one in by_form:
            if fits and (found := form.match(rest)):
                value, width = widen_one(operation, *found.groups())
                if width in _LEGAL:
                    return [*self._lines, result + value]
                wide = self._let(value)
                return [*self._lines, f"{result}and i64 {wide}, {(1 << width) - 1}"]
        raise _refused(line)

    def _let(self, value: str) -> str:
        name = f"%gpubuild.wide.{self._number}.{len(self._lines)}"
        self._lines.append(f"  {name} = {value}")
        return name

    def _signed(self, value: str, width: int) -> str:
        """Return ``value``, with copies of its sign above its ``width`` bits."""
        up = self._let(f"shl i64 {_operand(value, width)}, {_WIDE - width}")
        return self._let(f"ashr i64 {up}, {_WIDE - width}")

    def _cast(self, operation: str, source: str, value: str, target: str, _: str) -> tuple[str, int]:
        given, wanted = _width(source), _width(target)
        if given is None:  # a float
            return f"{operation} {source} {value} to i64", wanted or 0
        signed = operation in ("sext", "sitofp")
        if given in _LEGAL:
            if given == _WIDE:
                return f"or i64 {value}, 0", wanted or 0
            return f"{'sext' if signed else 'zext'} {source} {value} to i64", wanted or 0
        wide = self._signed(value, given) if signed else value
        if wanted is None:
            return f"{operation} i64 {wide} to {target}", _WIDE
        if wanted in _LEGAL and wanted != _WIDE:
            return f"trunc i64 {wide} to {target}", wanted
        return f"or i64 {wide}, 0", wanted

    def _binary(self, operation: str, bits: str, left: str, right: str) -> tuple[str, int]:
        width = int(bits)
        get = self._signed if operation in _SIGNED else _operand
        amount = _operand(right, width) if operation == "ashr" else get(right, width)
        return f"{operation} i64 {get(left, width)}, {amount}", width

    def _compare(self, _: str, predicate: str, bits: str, left: str, right: str) -> tuple[str, int]:
        get = self._signed if predicate.startswith("s") else _operand
        return f"icmp {predicate} i64 {get(left, int(bits))}, {get(right, int(bits))}", 1

    def _select(self, _: str, condition: str, bits: str, yes: str, no: str) -> tuple[str, int]:
        width = int(bits)
        return f"select i1 {condition}, i64 {_operand(yes, width)}, i64 {_operand(no, width)}", _WIDE

    def _phi(self, _: str, bits: str, incoming: str) -> tuple[str, int]:
        def operand(match: re.Match[str]) -> str:
            return f"[ {_operand(match[1], int(bits))},"

        return "phi i64 " + _INCOMING.sub(operand, incoming), _WIDE

    def _freeze(self, _: str, bits: str, value: str) -> tuple[str, int]:
        return f"freeze i64 {_operand(value, int(bits))}", int(bits)


def _width(kind: str) -> int | None:
    match = _TYPE.fullmatch(kind)
    return int(match[1]) if match else None


def _operand(value: str, width: int) -> str:
    """Return a constant without bits above ``width``; other values have none."""
    return str(int(value) & ((1 << width) - 1)) if value.lstrip("-").isdigit() else value


def _refused(line: str) -> StepError:
    widths = ", ".join(map(str, sorted(_odd(line))))
    return StepError(
        f"the module has integers of {widths} bits that SPIR-V lacks: {' '.join(line.split())[:200]}",
        hint="use integers of 8, 16, 32 or 64 bits",
    )
