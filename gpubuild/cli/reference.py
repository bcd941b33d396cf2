"""Reference: every command, option and environment variable; docs/reference.md made of them.

``python -m gpubuild.cli.reference docs/reference.md`` writes the page; a test compares them.

``gpubuild man``: the manual page, in the language of man(7), made from the parser.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpubuild import __version__
from gpubuild.cli.console import Console
from gpubuild.cli.options import Parser
from gpubuild.cli.parser import make_parser

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


OF_GPUBUILD = {
    "GPUBUILD_CACHE_DIR": "the cache folder, instead of the project file's",
    "GPUBUILD_CACHE": "read-write, read-only, write-only (nothing is taken from caches) or off",
    "GPUBUILD_CACHE_SHARED": "1 uses a cache folder that another user owns or every user can write",
    "GPUBUILD_JOBS": "steps at once, 1 to 4096, instead of the number of CPUs",
    "GPUBUILD_CC, GPUBUILD_CXX": "the C and the C++ compiler to use: a file, or a name in PATH; no arguments",
    "GPUBUILD_PTXAS, GPUBUILD_LIBDEVICE, GPUBUILD_LLD": "files to use instead of those from the wheels",
    "ROCM_PATH": "a ROCm installation, for its device libraries",
    "GPUBUILD_CLANG_LINKER_WRAPPER": "what finishes programs with offload: clang, instead of the one in PATH",
    "CUDA_PATH": "a CUDA installation, whose nvlink and fatbinary offload: clang needs for NVIDIA targets",
    "GPUBUILD_REMOTE": "the URL of a shared cache, instead of the project file's",
    "GPUBUILD_REMOTE_MODE": "read-write, read-only, write-only or off",
    "GPUBUILD_REMOTE_TOKEN": "a bearer token for the shared cache",
    "GPUBUILD_REMOTE_USER, GPUBUILD_REMOTE_PASSWORD": "basic authentication for the shared cache",
    "NETRC": "where credentials are looked up otherwise (default: ~/.netrc)",
    "XDG_CACHE_HOME": "scratch of tools lies in its folder gpubuild (default: ~/.cache)",
    "PATH": "where the system's C compiler and clang-linker-wrapper are looked for; nothing else is",
    "NO_COLOR, FORCE_COLOR": "never, or always, use colour",
    "GPUBUILD_DEBUG": "1 shows where an internal error happened",
}
OF_PROGRAMS = {
    "GPUBUILD_DEVICE": "auto, cpu, cuda[:N] or hip[:N]: where kernels run",
    "GPUBUILD_CPU_THREADS": "how many threads the CPU device uses",
    "GPUBUILD_CPU_CACHE_BYTES": "the size of a CPU's largest cache; kernels write larger results past it",
    "GPUBUILD_TRACE": "1 shows every load, launch and copy",
    "GPUBUILD_PROFILE": "a file to write what each kernel cost to, when the program ends",
    "GPUBUILD_CHECK": "1 runs kernels that check themselves (sanitize:), on the CPU; 0 those that do not",
    "GPUBUILD_CHECK_SUPPRESSIONS": "a file of findings of such checks that are to be kept quiet",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An option, with all of its spellings and the value it takes, or a positional argument."""

    spelling: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command; ``name`` is what follows ``gpubuild``. ``notes`` is text laid out by hand."""

    name: str
    usage: str
    text: str
    arguments: tuple[Argument, ...]
    notes: str


def all_commands() -> list[Command]:
    """Every command, those of ``cache`` one by one, in the order of ``gpubuild --help``."""
    return list(_commands(make_parser(), ""))


def _commands(parser: Parser, path: str) -> Iterator[Command]:
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for name, command in action.choices.items():
            whole = f"{path} {name}".strip()
            if any(isinstance(a, argparse._SubParsersAction) for a in command._actions):
                yield from _commands(command, whole)
                continue
            shown = [a for a in command._actions if a.help is not argparse.SUPPRESS]
            yield Command(
                name=whole,
                usage=_usage(command),
                text=command.description or "",
                arguments=tuple(_argument(a) for a in shown),
                notes=command.epilog or "",
            )


def _usage(command: Parser) -> str:
    """One line: how it wraps in help depends on the terminal."""
    return " ".join(command.format_usage().removeprefix("usage: ").split())


def _argument(action: argparse.Action) -> Argument:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        spelling = value
    elif action.nargs == 0:
        spelling = ", ".join(action.option_strings)
    else:
        spelling = f"{', '.join(action.option_strings)} {value}"
    return Argument(spelling=spelling, text=(action.help or "").replace("%%", "%"))


_HEAD = """\
# Command reference

Every command and option, made from the parser by
`python -m gpubuild.cli.reference docs/reference.md`. The behaviour you can rely on is in
[cli.md](cli.md). `gpubuild man | man -l -` shows this page as a manual page.
"""


def page() -> str:
    """The page's text."""
    parts = [_HEAD, *map(_section, all_commands())]
    parts.append("## Environment\n\n" + _table(OF_GPUBUILD, "variable"))
    parts.append("## Environment of built programs\n\n" + _table(OF_PROGRAMS, "variable"))
    return "\n".join(parts)


def _section(command: Command) -> str:
    rows = {argument.spelling: argument.text for argument in command.arguments}
    text = f"## gpubuild {command.name}\n\n{command.text}\n\n```text\n{command.usage}\n```\n\n"
    text += _table(rows, "argument")
    if command.notes:
        text += f"\n```text\n{command.notes.rstrip()}\n```\n"
    return text


def _table(rows: Mapping[str, str], head: str) -> str:
    lines = [f"| {head} | |", "|---|---|"]
    lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
