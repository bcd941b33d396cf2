"""Problems: mistakes found in one file, collected until all of them can be told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from gpubuild.errors import ConfigError, Diagnostic, Location

# What YAML 1.1 counts as a line break, so that line numbers agree with the parser's marks.
_LINE_BREAK = "\r\n|[\r\n\x85\u2028\u2029]"


class Place(NamedTuple):
    """A position in the file, 1-based. Places sort in file order."""

    line: int
    column: int


START = Place(1, 1)


class Problems:
    """The mistakes in one file. ``file`` is its name as messages show it."""

    def __init__(self, file: str, text: str = "") -> None:
        self._file = file
        self._text = text
        self._lines: list[str] = []  # of the text, when there is something to show in it
        # A dict for its order and its keys: an alias shows one node in several places of the tree,
        # and once is enough.
        self._found: dict[tuple[Place, Diagnostic], None] = {}

    def add(
        self, place: Place, message: str, *, first: Place | None = None, about: str = "first given here"
    ) -> None:
        """Note a mistake at ``place``; ``first`` is an earlier place it has to do with, as ``about`` says."""
        notes: tuple[Diagnostic, ...] = ()
        if first is not None:
            notes = (self._diagnostic(first, about, severity="note"),)
        self._found[place, self._diagnostic(place, message, notes=notes)] = None

    def __bool__(self) -> bool:
        return bool(self._found)

    def error(self) -> ConfigError:
        """All mistakes, in file order."""
        return ConfigError(d for _, d in sorted(self._found, key=lambda pair: pair[0]))

    def _diagnostic(
        self, place: Place, message: str, severity: str = "error", notes: tuple[Diagnostic, ...] = ()
    ) -> Diagnostic:
        self._lines = self._lines or re.split(_LINE_BREAK, self._text)
        line = self._lines[place.line - 1] if place.line <= len(self._lines) else ""
        return Diagnostic(
            message=message,
            severity=severity,
            location=Location(file=self._file, line=place.line, column=place.column),
            source_line=line,
            notes=notes,
        )


def did_you_mean(word: str, known: Iterable[str], *, what: str = "known") -> str:
    """`` (did you mean 'x'?)``, else the known words, as the end of a message."""
    import difflib  # for mistakes only

    names = list(known)
    if close := difflib.get_close_matches(word, names, n=1):
        return f" (did you mean '{close[0]}'?)"
    return f" ({what}: {', '.join(names)})" if names else ""
