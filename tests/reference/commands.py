"""docs/reference/commands.md: every command, option and environment variable, from the parser.

``python tests/reference/commands.py`` writes the page; a test compares them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpubuild.cli.options import Parser
from gpubuild.cli.parser import make_parser

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
OF_GPUBUILD = {
    "GPUBUILD_CACHE_DIR": "the cache folder, instead of the project file's",
    "GPUBUILD_CACHE": "read-write, read-only, write-only (nothing is taken from caches) or off",
    "GPUBUILD_CACHE_SHARED": "1 uses a cache folder that another user owns or every user can write",
    "GPUBUILD_JOBS": "steps to run at once, 1 to 4096, instead of the number of CPUs",
    "GPUBUILD_CC, GPUBUILD_CXX": "the C and the C++ compiler to use: a file, or a name in PATH; no arguments",
    "GPUBUILD_PTXAS, GPUBUILD_LIBDEVICE, GPUBUILD_LLD": "files to use instead of those from the wheels",
    "GPUBUILD_CLANG_LINKER_WRAPPER": "the linker of programs with offload: clang, instead of the one in PATH",
    "CUDA_PATH": "a CUDA installation, whose nvlink and fatbinary offload: clang needs for NVIDIA targets",
    "GPUBUILD_REMOTE": "the URL of a shared cache, instead of the project file's",
    "GPUBUILD_REMOTE_MODE": "read-write, read-only, write-only or off",
    "GPUBUILD_REMOTE_TOKEN": "a bearer token for the shared cache",
    "GPUBUILD_REMOTE_USER, GPUBUILD_REMOTE_PASSWORD": "basic authentication for the shared cache",
    "NETRC": "the file with credentials, where none are set above (default: ~/.netrc)",
    "XDG_CACHE_HOME": "its folder gpubuild has the cache of projects and files of tools (default: ~/.cache)",
    "PATH": "where the system's C compiler and clang-linker-wrapper are searched, and no other tool",
    "NO_COLOR, FORCE_COLOR": "never, or always, use colour",
    "GPUBUILD_EXECUTOR": "like `--executor`: local or dask:ADDRESS",
    "GPUBUILD_EXECUTE_JOBS": "how many threads of the cluster's workers to use, instead of `jobs:`",
    "GPUBUILD_EXECUTE_ONLY, GPUBUILD_EXECUTE_FALLBACK": "1 or 0, instead of `only:` and `fallback:`",
    "GPUBUILD_EXECUTE_VERIFY": "the part of the results to make here, too, instead of `verify:`",
    "GPUBUILD_DEBUG": "1 shows where an internal error happened",
}
OF_PROGRAMS = {
    "GPUBUILD_DEVICE": "auto, cpu, cuda[:N] or hip[:N]: where kernels run",
    "GPUBUILD_CPU_THREADS": "how many threads the CPU device uses",
    "GPUBUILD_CPU_CACHE_BYTES": "the size of the largest CPU cache; kernels bypass it for larger results",
    "GPUBUILD_TRACE": "1 shows every load, launch and copy",
    "GPUBUILD_PROFILE": "the file to write the cost of each kernel to, when the program ends",
    "GPUBUILD_CHECK": "1 runs checked kernels (sanitize:) on the CPU; 0 runs the plain ones",
    "GPUBUILD_CHECK_SUPPRESSIONS": "a file that lists findings of checked kernels to ignore",
}


_HEAD = """\
# Command reference

Every command and option, made from the parser by `python tests/reference/commands.py`. The
behaviour you can rely on is in [cli.md](cli.md).
"""


def page() -> str:
    """Return the text of the page."""
    parts = [_HEAD, *_sections(make_parser(), "")]
    parts.append("## Environment\n\n" + _table(OF_GPUBUILD, "variable"))
    parts.append("## Environment of built programs\n\n" + _table(OF_PROGRAMS, "variable"))
    return "\n".join(parts)


def _sections(parser: Parser, path: str) -> Iterator[str]:
    for action in parser._actions:
        for name, command in action.choices.items() if isinstance(action, argparse._SubParsersAction) else ():
            whole = f"{path} {name}".strip()
            if any(isinstance(a, argparse._SubParsersAction) for a in command._actions):
                yield from _sections(command, whole)
            else:
                yield _section(whole, command)


def _section(name: str, command: Parser) -> str:
    # One line: the usage wraps at the width of the terminal.
    usage = " ".join(command.format_usage().removeprefix("usage: ").split())
    shown = [action for action in command._actions if action.help is not argparse.SUPPRESS]
    rows = {_spelling(action): (action.help or "").replace("%%", "%") for action in shown}
    text = f"## gpubuild {name}\n\n{command.description}\n\n```text\n{usage}\n```\n\n"
    text += _table(rows, "argument")
    if command.epilog:
        text += f"\n```text\n{command.epilog.rstrip()}\n```\n"
    return text


def _spelling(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    if not action.option_strings:
        return value
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def _table(rows: Mapping[str, str], head: str) -> str:
    lines = [f"| {head} | |", "|---|---|"]
    lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
