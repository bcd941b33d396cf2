"""Run the C or C++ compiler driver (gcc, clang, ``zig cc``) and read its messages as diagnostics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, Location
from gpubuild.support import text as columns
from gpubuild.toolchain.run import ToolRun, run_tool

# `zig cc` would add its sanitizer to unoptimised code and debug information to all of it.
COMMON_FLAGS = ("-fPIC", "-frandom-seed=0", "-fno-sanitize=undefined")

# Without it `__DATE__` and `__TIME__` would put the clock into objects; gcc and clang both heed it.
_ENVIRONMENT = {"SOURCE_DATE_EPOCH": "0"}


def run_driver(io: StepIO, tool: str, arguments: Sequence[str | Path], *, cwd: Path | None = None) -> ToolRun:
    """Run tool ``tool`` (``cc``, ``cxx`` or ``ar``) with ``arguments`` in the scratch folder.

    Does not raise for a failing exit code: the caller knows what the messages are about.
    """
    return run_tool([*io.tool(tool), *arguments], cwd=cwd or io.scratch, environment=_ENVIRONMENT)


def first_lines(text: bytes, count: int = 40) -> str:
    """The beginning of what a tool printed: one mistake in a header can print megabytes."""
    lines = text.decode(errors="replace").strip().splitlines()
    if len(lines) > count:
        lines = [*lines[:count], f"… {len(lines) - count} more lines"]
    return "\n".join(lines)


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
