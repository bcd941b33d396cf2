"""Quote: give the diagnostics of a failed step the lines of the user's files they point into.

Workers know sources by name only: paths stay out of what they read and write. Who knows the
project's folder adds the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubuild import columns
from gpubuild.errors import Diagnostic, GpubuildError, StepError
from gpubuild.frozen import replace

_MAX_FILE_BYTES = 16 << 20  # more is no source that anyone reads by the line


def quote_sources(error: GpubuildError | None, root: Path) -> None:
    """Fill in ``source_line`` where it is empty and the named file, relative to ``root``, has it."""
    if isinstance(error, StepError):
        files: dict[str, Sequence[str]] = {}
        error.diagnostics = tuple(_quoted(d, root, files) for d in error.diagnostics)


def _quoted(diagnostic: Diagnostic, root: Path, files: dict[str, Sequence[str]]) -> Diagnostic:
    notes = tuple(_quoted(note, root, files) for note in diagnostic.notes)
    line = diagnostic.source_line
    place = diagnostic.location
    if not line and place is not None and place.line > 0:
        if place.file not in files:
            files[place.file] = _lines(root / place.file)
        lines = files[place.file]
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        place = replace(place, column=columns.of_byte(line, place.column))
    return replace(diagnostic, location=place, source_line=line, notes=notes)


def _lines(path: Path) -> Sequence[str]:
    try:
        if path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES:
            # Not splitlines(): compilers count no form feed or U+2028 as the end of a line.
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            return [line.rstrip("\r") for line in text.split("\n")]
    except (OSError, ValueError):  # unreadable, or a name that cannot be a path
        pass
    return ()
