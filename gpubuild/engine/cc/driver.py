"""Run the C or C++ compiler driver (gcc, clang, ``zig cc``) and read its messages as diagnostics."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, Location
from gpubuild.support import text as columns
from gpubuild.toolchain.run import ToolRun, run_tool

# Without the last, `zig cc` adds its sanitizer to unoptimised code.
COMMON_FLAGS = ("-fPIC", "-frandom-seed=0", "-fno-sanitize=undefined")

# zig compiles for the CPU of this machine by default, which no key covers, but preprocessed text for every
# CPU. Without the second flag its first link also builds a library of its sanitizer: 12 s of CPU time.
_ZIG_FLAGS = ("-mcpu=baseline", "-fno-sanitize=undefined")
_PREPROCESSED = (".i", ".ii")

_ENVIRONMENT = {"SOURCE_DATE_EPOCH": "0"}  # for `__DATE__` and `__TIME__`


def run_driver(io: StepIO, tool: str, arguments: Sequence[str | Path], *, cwd: Path | None = None) -> ToolRun:
    """Run ``cc``, ``cxx`` or ``ar`` in the scratch folder. The caller checks the exit code."""
    command = [*io.tool(tool)]
    if Path(command[0]).name == "zig" and tool != "ar" and Path(arguments[-1]).suffix not in _PREPROCESSED:
        command += _ZIG_FLAGS
    return run_tool([*command, *arguments], cwd=cwd or io.scratch, environment=_ENVIRONMENT)


def first_lines(text: bytes, count: int = 40) -> str:
    """Return the first lines of a tool's output: an error in a header can print megabytes."""
    lines = text.decode(errors="replace").strip().splitlines()
    if len(lines) > count:
        lines = [*lines[:count], f"… {len(lines) - count} more lines"]
    return "\n".join(lines)


_MESSAGE = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note): (?P<message>.*)"
)
# About the value of a macro of -D; gcc names the place of use in a note.
_IN_OPTION = re.compile(r"<command-line>: (?P<severity>error|warning): (?P<message>.*)")
_CARET = re.compile(r" +\| (?P<lead>[ ~]*)\^[ ~]*")


def messages(stderr: bytes, folder: Path) -> tuple[Diagnostic, ...]:
    """Return errors and warnings in the output of a compiler that ran in ``folder``."""
    lines = SourceText()
    text = stderr.decode(errors="replace")
    return parse_messages(text, lambda file, line: lines.line(str(folder / file), line))


def parse_messages(text: str, source_line: Callable[[str, int], str]) -> tuple[Diagnostic, ...]:
    """Return errors and warnings in ``text``, in order, each with the notes after it.

    ``source_line`` returns a line (from 1) of a file by its printed name, or an empty string.
    """
    found: list[Diagnostic] = []
    lines = text.split("\n")
    in_option: re.Match[str] | None = None
    for number, raw in enumerate(lines):
        match = _MESSAGE.fullmatch(raw)
        if match is None:
            in_option = _IN_OPTION.fullmatch(raw) or in_option
            continue
        line = int(match["line"])
        source = source_line(match["file"], line)
        column = _column(source, int(match["column"] or 0), lines[number + 1 : number + 3])
        diagnostic = Diagnostic(
            message=match["message"],
            severity=match["severity"].removeprefix("fatal "),
            location=Location(file=match["file"], line=line, column=column),
            source_line=source,
        )
        option, in_option = in_option, None
        if diagnostic.severity == "note" and option is not None:
            found.append(replace(diagnostic, severity=option["severity"], message=option["message"]))
        elif diagnostic.severity == "note" and found:
            found[-1] = replace(found[-1], notes=(*found[-1].notes, diagnostic))
        else:
            found.append(diagnostic)
    return tuple(found)


def _column(line: str, printed: int, excerpt: Sequence[str]) -> int:
    """Return the column ``printed`` in characters: clang counts bytes, gcc since 11 terminal columns.

    Below the source line both print a caret under the character.
    """
    for text in excerpt:
        if (caret := _CARET.fullmatch(text)) and not (line.isascii() and "\t" not in line):
            return columns.of_cell(line, len(caret["lead"]) + 1)
    return columns.of_byte(line, printed)
