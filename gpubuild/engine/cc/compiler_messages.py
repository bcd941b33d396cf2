"""C messages: what gcc, clang and zig print about a source, as diagnostics with places."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from gpubuild.errors import Diagnostic, Location
from gpubuild.support import text as columns

_MESSAGE = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)
_CARET = re.compile(r" +\| (?P<lead>[ ~]*)\^[ ~]*")


def parse_messages(
    text: str,
    *,
    source_line: Callable[[str, int], str],
    shown: Callable[[str], str] = str,
) -> tuple[Diagnostic, ...]:
    """Errors and warnings in ``text``, in order, each with the notes that follow it.

    ``source_line`` gives the text of a 1-based line of a file as printed, or an empty string;
    ``shown`` turns a file name as printed into the one the user knows.
    """
    found: list[Diagnostic] = []
    lines = text.split("\n")
    for number, raw in enumerate(lines):
        match = _MESSAGE.fullmatch(raw)
        if match is None:
            continue
        line = int(match["line"])
        text_there = source_line(match["file"], line)
        column = _column(text_there, int(match["column"] or 0), lines[number + 1 : number + 3])
        diagnostic = Diagnostic(
            message=match["message"],
            severity=match["severity"].removeprefix("fatal "),
            location=Location(file=shown(match["file"]), line=line, column=column),
            source_line=text_there,
        )
        if diagnostic.severity == "note" and found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, diagnostic))
        else:
            found.append(diagnostic)
    return tuple(found)


def _column(line: str, printed: int, excerpt: Sequence[str]) -> int:
    """``printed`` in characters: clang counts bytes, gcc since 11 a terminal's columns.

    Below the source line both set a caret where a terminal would show the character.
    """
    for text in excerpt:
        if (caret := _CARET.fullmatch(text)) and not (line.isascii() and "\t" not in line):
            return columns.of_cell(line, len(caret["lead"]) + 1)
    return columns.of_byte(line, printed)
