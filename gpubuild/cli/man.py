"""``gpubuild man``: the manual page, in the language of man(7), made from the parser."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from gpubuild import __version__
from gpubuild.cli.console import Console
from gpubuild.cli.reference import OF_GPUBUILD, OF_PROGRAMS, Command, all_commands

_DESCRIPTION = (
    "gpubuild compiles programs written in MLIR's gpu dialect for every target that targets.yaml names, "
    "NVIDIA and AMD GPUs and the plain CPU, and links them into one executable each, which picks the best "
    "image for the device it finds. Steps run side by side in isolated workers; results are cached."
)
_EXITS = {
    "0": "done",
    "1": "a step failed, or with run --all a program printed something else than expected",
    "2": "wrong usage or configuration",
    "3": "internal error",
    "130": "interrupted by Ctrl-C or SIGTERM",
}
_FILES = {
    "targets.yaml": "the project: targets and programs",
    "build/": "what was built; build/.gpubuild holds gpubuild's own records",
    "cache/": "the local cache, unless the project file or GPUBUILD_CACHE_DIR says otherwise",
}


def execute(options: argparse.Namespace) -> int:
    """The command."""
    console: Console = options.console
    console.out.write(manual())
    return 0


def manual() -> str:
    """The page's source. It says no date: the same version gives the same page."""
    lines = [
        f'.TH GPUBUILD 1 "" "gpubuild {_escape(__version__)}" "User Commands"',
        ".SH NAME",
        r"gpubuild \- build multi\-target GPU programs written in MLIR's gpu dialect",
        ".SH SYNOPSIS",
        r"\fBgpubuild\fR \fICOMMAND\fR [\fIoptions\fR]",
        ".SH DESCRIPTION",
        _text(_DESCRIPTION),
        ".SH COMMANDS",
    ]
    for command in all_commands():
        lines += _command(command)
    for title, table in (
        ("EXIT STATUS", _EXITS),
        ("ENVIRONMENT", OF_GPUBUILD),
        ("ENVIRONMENT OF BUILT PROGRAMS", OF_PROGRAMS),
        ("FILES", _FILES),
    ):
        lines.append(f".SH {title}")
        lines += _tagged(table.items())
    return "\n".join([*lines, ""])


def _command(command: Command) -> list[str]:
    lines = [f".SS gpubuild {_escape(command.name)}", _text(command.text), ".PP", _text(command.usage)]
    lines += _tagged((a.spelling, a.text) for a in command.arguments)
    if command.notes:
        lines += [".PP", ".nf", *(_text(line) for line in command.notes.rstrip().splitlines()), ".fi"]
    return lines


def _tagged(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in pairs for line in (".TP", rf"\fB{_escape(name)}\fR", _text(text))]


def _text(text: str) -> str:
    """A line of text: one that begins like a request would be taken for one."""
    escaped = _escape(text)
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped or r"\&"


def _escape(text: str) -> str:
    # Options are to be typed as they stand: "-" would otherwise become a hyphen.
    text = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub("[^\\x00-\\x7f]", lambda m: rf"\[u{ord(m[0]):04X}]", text)
