"""Options that several commands share, and the project they name.

Option table: the options of ``build`` as data, for the parser and for ``cli.quick``.

Imports nothing: a build with nothing to do has no time for argparse.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gpubuild.errors import UsageError
from gpubuild.model.project import Project
from gpubuild.support.text import suggestion

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

FLAG, PATH, NUMBER, WORDS = "flag", "path", "number", "words"  # words: may be repeated
PROJECT_FILE = "targets.yaml"

# By where the parser puts it: names, what it takes, what the help calls that, and the help.
OPTIONS = {
    "quiet": (("-q", "--quiet"), FLAG, "", "no progress"),
    "verbose": (("-v", "--verbose"), FLAG, "", "also show steps that had nothing to do"),
    "file": (("-f", "--file"), PATH, "FILE", f"the project file (default: {PROJECT_FILE})"),
    "build_dir": (("--build-dir",), PATH, "DIR", "default: build, beside the project file"),
    "jobs": (("-j", "--jobs"), NUMBER, "N", "steps at once (default: CPUs)"),
    "targets": (("-t", "--target"), WORDS, "TARGET", "compile kernels for this target only; may be repeated"),
    "cache_dir": (("--cache-dir",), PATH, "DIR", "overrides the project file"),
    "no_cache": (("--no-cache",), FLAG, "", "neither read nor write the cache"),
    "keep_going": (("-k", "--keep-going"), FLAG, "", "continue with all independent steps after a failure"),
    "dump_ir": (("--dump-ir",), PATH, "DIR", "write the IR after every stage; cached steps run again"),
    "trace": (("--trace",), PATH, "FILE", "write a trace for Perfetto or Chrome"),
    "dry_run": (("-n", "--dry-run"), FLAG, "", "say what would be done, compile nothing"),
    "explain": (("--explain",), FLAG, "", "list every step with its status and reason"),
    "json": (("--json",), FLAG, "", "one JSON document on stdout, nothing else there"),
}


class Text(argparse.RawDescriptionHelpFormatter):
    """The text of a help. argparse makes one for every option, too, only to check it.

    By itself it would ask how wide the terminal is, of ``shutil``, which loads bz2 and lzma.
    """

    columns = 80

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=self.columns - 2)


class Parser(argparse.ArgumentParser):
    """Reports mistakes as ``UsageError``, with what was probably meant."""

    def format_help(self) -> str:
        """The help, as wide as the terminal."""
        import shutil

        Text.columns = shutil.get_terminal_size().columns
        return super().format_help()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse's own ignores that it cannot be written.
        if message and file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        """See the class."""
        hint = f"see `{self.prog} --help`"
        near = self._near(message)
        for action in self._actions:
            if not isinstance(action, argparse._SubParsersAction):
                continue
            word = str(action.metavar)
            if wrong := re.match(rf"argument {word}: invalid choice: '([^']*)'", message):
                message = f"there is no {word.lower()} {wrong[1]!r}"
            elif not message.endswith(f"required: {word}"):
                continue
            hint = f"{word} is one of {', '.join(action.choices)}; {hint}"
        raise UsageError(message + near, hint=hint)

    def _near(self, message: str) -> str:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        unknown = re.search(r"unrecognized arguments: (-\S*)", message)
        wanted, known = "", list[str]()
        if choice:
            wanted, known = choice[1], re.findall(r"[\w.-]+", choice[2])
        elif unknown:
            wanted, known = unknown[1].split("=")[0], [s for a in self._actions for s in a.option_strings]
        return suggestion(wanted, known)


def add_options(parser: Parser, *names: str, text: str = "") -> None:
    """Options of the table; ``text`` is the help of a command for which they mean something else."""
    for name in names:
        spellings, takes, metavar, usual = OPTIONS[name]
        if takes == FLAG:
            parser.add_argument(*spellings, dest=name, action="store_true", help=text or usual)
            continue
        default = Path(PROJECT_FILE) if name == "file" else {NUMBER: 0, WORDS: []}.get(takes)
        parser.add_argument(
            *spellings, dest=name, metavar=metavar, default=default, help=text or usual,
            action="append" if takes == WORDS else "store", type=_TYPES[takes],
        )  # fmt: skip


def add_project(parser: Parser) -> None:
    """Where the project and its build folder are."""
    add_options(parser, "file", "build_dir")


def add_build_options(parser: Parser) -> None:
    """What every command that builds takes."""
    add_project(parser)
    add_options(parser, "jobs", "targets", "cache_dir", "no_cache", "keep_going", "dump_ir", "trace")


def add_targets(parser: Parser, meaning: str) -> None:
    """``-t``, for what ``meaning`` says."""
    add_options(parser, "targets", text=f"{meaning}; may be repeated")


def add_modules(parser: Parser, meaning: str) -> None:
    """``--module``, for what ``meaning`` says."""
    parser.add_argument(
        "--module", action="append", default=[], metavar="NAME", dest="modules",
        help=f"{meaning}; may be repeated",
    )  # fmt: skip


def add_json(parser: Parser) -> None:
    """``--json``."""
    add_options(parser, "json")


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    text: str,
    *,
    epilog: str = "",
    handler: str | None = None,
    verbose: str = "",
) -> Parser:
    """A command of its own; ``handler`` is where it is carried out: ``module:function``, imported then.

    ``verbose`` is what ``-v`` does, if it is something else than usual.
    """
    parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=Text,
        allow_abbrev=False,
    )
    add_options(parser, "quiet")
    add_options(parser, "verbose", text=verbose)
    if handler is None:
        handler = f"gpubuild.cli.{name}:execute"
    if handler:
        parser.set_defaults(command=late(handler), parser=parser, json=False)
    return parser


def late(handler: str) -> Callable[[argparse.Namespace], int]:
    """``module:function``, imported when it is called."""
    module, _, function = handler.partition(":")

    def call(options: argparse.Namespace) -> int:
        result: int = getattr(importlib.import_module(module), function)(options)
        return result

    return call


def positive(text: str) -> int:
    """A number of steps, work-items or builds, for ``type=``."""
    if not text.isdigit() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 4096, not {text!r}")
    return int(text)


def path(text: str) -> Path:
    """A file or folder, for ``type=``; nothing at all, of an unset variable say, is none."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got nothing")
    return Path(text)


_TYPES: dict[str, Callable[[str], object]] = {NUMBER: positive, PATH: path, WORDS: str}


def load(options: argparse.Namespace) -> Project:
    """The project that ``-f`` names. Raises ``ConfigError``."""
    from gpubuild.config.load import load_project

    return load_project(options.file)


def build_folder(options: argparse.Namespace, root: Path) -> Path:
    """The absolute build folder: as given, from here; by default ``build`` in the project."""
    return Path.cwd() / options.build_dir if options.build_dir else root / "build"
