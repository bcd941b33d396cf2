"""Diagnostics: what MLIR reports, as our own records with file, line, column and source text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.errors import Diagnostic, Location
from gpubuild.support import text as columns

if TYPE_CHECKING:
    from mlir import ir

UNNAMED_BUFFER = "-"  # what MLIR calls text that was parsed from memory
_OP_DUMP = "see current operation"  # the op printed generically; the source line says it better
_NOT_LEGALIZED = re.compile(r"failed to legalize operation '([\w.]+)'")
_SEVERITIES = {"ERROR": "error", "WARNING": "warning", "NOTE": "note", "REMARK": "remark"}


class SourceText:
    """Finds the text of a line for a message: in the parsed text itself, or in the named file.

    ``source_name`` replaces MLIR's name for text parsed from memory. A file is read at most once
    and only when a message points into it; one that cannot be read gives no line.
    """

    def __init__(self, text: str = "", source_name: str = "") -> None:
        self.text = text
        self._name = source_name
        self._lines: dict[str, Sequence[str]] = {}
        if text:
            self._lines[UNNAMED_BUFFER] = _split(text)
            if source_name:
                self._lines[source_name] = self._lines[UNNAMED_BUFFER]

    def name(self, file: str) -> str:
        """What to call ``file`` in a message."""
        return (self._name or "<input>") if file == UNNAMED_BUFFER else file

    def line(self, file: str, number: int) -> str:
        """Line ``number`` (from 1) of ``file``, or an empty string."""
        if file not in self._lines:
            try:
                self._lines[file] = _split(Path(file).read_text(encoding="utf-8", errors="replace"))
            except (OSError, ValueError):
                self._lines[file] = ()
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def _split(text: str) -> Sequence[str]:
    """Lines as compilers count them: not splitlines(), to which a form feed or U+2028 ends one, too."""
    return [line.rstrip("\r") for line in text.split("\n")]


def from_mlir(infos: Iterable[ir.DiagnosticInfo], source: SourceText) -> tuple[Diagnostic, ...]:
    """Convert ``mlir.ir.DiagnosticInfo`` (or live ``Diagnostic``) values with all their notes."""
    return tuple(_convert(info, source) for info in infos)


def _convert(info: ir.DiagnosticInfo, source: SourceText) -> Diagnostic:
    location, line = locate(info.location, source)
    return Diagnostic(
        message=_explained(info.message.strip(), [note.message for note in info.notes]),
        severity=_SEVERITIES.get(getattr(info.severity, "name", ""), "error"),
        location=location,
        source_line=line,
        notes=tuple(_convert(note, source) for note in info.notes if not note.message.startswith(_OP_DUMP)),
    )


def _explained(message: str, notes: Sequence[str]) -> str:
    """What a failed conversion says, with the types that it failed on and without its own terms."""
    match = _NOT_LEGALIZED.match(message)
    if match is None:
        return message
    dump = next((note for note in notes if note.startswith(_OP_DUMP)), "")
    # A function's dump ends with its own type, which is none; what it takes is an attribute.
    types = re.search(r"function_type = (.+?)(?:, \w+ = |}>)", dump) or re.search(
        r" : (\([^{}]*\) -> .+)$", dump.strip()
    )
    of = f" of type {types[1]}" if types else ""
    return (
        f"'{match[1]}'{of} cannot be lowered for this target: no conversion knows it, or not with these types"
    )


def about(op: ir.Operation, message: str, source: SourceText) -> Diagnostic:
    """An error at the place of ``op``."""
    location, line = locate(op.location, source)
    return Diagnostic(message=message, location=location, source_line=line)


def locate(location: ir.Location, source: SourceText) -> tuple[Location | None, str]:
    """The first real file position inside an MLIR location, and the text of that line.

    Named, fused and call-site locations are searched outermost meaning first: a call site points
    to the code that was written, not to who inlined it. ``None`` when there is no file position.
    """
    found = file_position(location)
    if found is None:
        return None, ""
    file, line, column = found
    # MLIR gives an op made by a pass the position 0:0 of its buffer, which helps nobody.
    if file == UNNAMED_BUFFER and line == 0:
        return None, ""
    text = source.line(file, line)
    return Location(file=source.name(file), line=line, column=columns.of_byte(text, column)), text


def file_position(location: ir.Location) -> tuple[str, int, int] | None:
    """(file, line, column) inside an MLIR location, or ``None``."""
    if location.is_a_file():
        return location.filename, location.start_line, location.start_col
    if location.is_a_name():
        return file_position(location.child_loc)
    if location.is_a_callsite():
        return file_position(location.callee) or file_position(location.caller)
    if location.is_a_fused():
        for part in location.locations:
            if (found := file_position(part)) is not None:
                return found
    return None
