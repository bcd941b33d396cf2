"""Reference: docs/reference.md, every command and option, made from the parser.

``python -m gpubuild.cli.reference docs/reference.md`` writes the page; a test compares them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from gpubuild.cli.reference_data import OF_GPUBUILD, OF_PROGRAMS, Command, all_commands

_HEAD = """\
# Command reference

Every command and option, made from the parser by
`python -m gpubuild.cli.reference docs/reference.md`. The behaviour you can rely on is in
[cli.md](cli.md). `gpubuild man | man -l -` shows this page as a manual page.
"""


def page() -> str:
    """The page's text."""
    parts = [_HEAD, *map(_command, all_commands())]
    parts.append("## Environment\n\n" + _table(OF_GPUBUILD, "variable"))
    parts.append("## Environment of built programs\n\n" + _table(OF_PROGRAMS, "variable"))
    return "\n".join(parts)


def _command(command: Command) -> str:
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
