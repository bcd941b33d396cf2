"""Source checks: what is refused in the text of a source, before MLIR parses it.

MLIR's parser and passes are recursive: on 8 MiB of stack, the parser overflows at 2,000 to 30,000
levels, depending on what is nested. Its bindings have no names but those in UTF-8.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate

from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.errors import Diagnostic, Location, StepError

MOST_LEVELS = 1000
_MOST_LISTED = 10
_OPENING, _CLOSING = "([{<", ")]}>"
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
# Strings, comments, and what only looks like a bracket.
_NO_BRACKETS = rf"{_STRING}|//[^\n]*|->|[<>]="
_ASIDE = re.compile(_NO_BRACKETS)
_TOKEN = re.compile(rf"{_NO_BRACKETS}|[{re.escape(_OPENING + _CLOSING)}]")
_STEPS = bytes.maketrans((_OPENING + _CLOSING).encode(), b"\x01" * 4 + b"\xff" * 4)
_REST = bytes(set(range(256)) - set((_OPENING + _CLOSING).encode()))
_NO_ASCII = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_READ_AS_TEXT = {
    "@": "the name",
    "sym_name = ": "the name",
    "gpu.printf ": "the format",
    "loc(": "the file name",
}
_NAMED = re.compile(rf"//[^\n]*|({'|'.join(map(re.escape, _READ_AS_TEXT))})?{_STRING}")
_WHAT = "cannot parse the MLIR text"


def check_source(text: str, source: SourceText, name: str) -> None:
    """Raise ``StepError``, with places in the file ``name``, for text that MLIR would fail on."""
    text = text.partition("{-#")[0]  # resources, which nest and name nothing, may be very large
    if sum(map(text.count, _OPENING)) > MOST_LEVELS:
        _refuse_deep(text, source, name)
    if _NO_ASCII.search(text):
        _refuse_undecodable(text, source, name)


def _refuse_deep(text: str, source: SourceText, name: str) -> None:
    steps = _ASIDE.sub("", text).encode(errors="replace").translate(_STEPS, _REST)
    if max(accumulate(array("b", steps)), default=0) <= MOST_LEVELS:
        return
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
        if depth > MOST_LEVELS:
            message = f"nested too deeply: this is level {depth}, and {MOST_LEVELS} can be compiled"
            raise StepError(
                _WHAT,
                diagnostics=[_at(token.start(), message, text, source, name)],
                hint="move inner regions into functions of their own, or use flatter types and attributes",
            )


def _refuse_undecodable(text: str, source: SourceText, name: str) -> None:
    found: list[Diagnostic] = []
    for match in _NAMED.finditer(text):
        if len(found) < _MOST_LISTED and match[1] and not _is_utf8(match[2]):
            message = f'{_READ_AS_TEXT[match[1]]} "{match[2]}" is not UTF-8'
            found.append(_at(match.start(2) - 1, message, text, source, name))
    if found:
        raise StepError(_WHAT, diagnostics=found, hint="bytes are written \\HH; `ü` can be written as it is")


def _is_utf8(literal: str) -> bool:
    def byte(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if len(match[1]) == 2 else match[1]

    try:
        _ESCAPE.sub(byte, literal.encode(errors="replace")).decode()
    except UnicodeDecodeError:
        return False
    return True


def _at(offset: int, message: str, text: str, source: SourceText, name: str) -> Diagnostic:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    location = Location(file=name, line=line, column=column)
    return Diagnostic(message=message, location=location, source_line=source.line(name, line))
