"""Commands: what the parser knows of each, as records, for the manual page and the reference."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from gpubuild.cli.options import Parser
from gpubuild.cli.parser import make_parser


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
