"""C messages: what gcc, clang and zig print about a source, as diagnostics with places."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gpubuild.errors import Diagnostic, Location

_MESSAGE = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)


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
    for raw in text.splitlines():
        match = _MESSAGE.fullmatch(raw)
        if match is None:
            continue
        line = int(match["line"])
        diagnostic = Diagnostic(
            message=match["message"],
            severity=match["severity"].removeprefix("fatal "),
            location=Location(file=shown(match["file"]), line=line, column=int(match["column"] or 0)),
            source_line=source_line(match["file"], line),
        )
        if diagnostic.severity == "note" and found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, diagnostic))
        else:
            found.append(diagnostic)
    return tuple(found)
