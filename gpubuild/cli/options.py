"""Options: what the commands' parsers have in common.

Project options: from ``-f``, ``--build-dir`` and their kin to what a build takes.
"""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpubuild.errors import UsageError
from gpubuild.model.project import Project


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
        import difflib  # for mistakes only

        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        unknown = re.search(r"unrecognized arguments: (-\S*)", message)
        wanted, known = "", list[str]()
        if choice:
            wanted, known = choice[1], re.findall(r"[\w.-]+", choice[2])
        elif unknown:
            wanted, known = unknown[1].split("=")[0], [s for a in self._actions for s in a.option_strings]
        near = difflib.get_close_matches(wanted, known, 1)
        return f" (did you mean {near[0]!r}?)" if near else ""


def add_project(parser: Parser) -> None:
    """Where the project and its build folder are."""
    parser.add_argument(
        "-f", "--file", type=path, default=Path("targets.yaml"), metavar="FILE",
        help="the project file (default: targets.yaml)",
    )  # fmt: skip
    parser.add_argument(
        "--build-dir", type=path, metavar="DIR", help="default: build, beside the project file"
    )


def add_build_options(parser: Parser) -> None:
    """What every command that builds takes."""
    add_project(parser)
    parser.add_argument(
        "-j", "--jobs", type=positive, default=0, metavar="N", help="steps at once (default: CPUs)"
    )
    add_targets(parser, "compile kernels for this target only")
    parser.add_argument("--cache-dir", type=path, metavar="DIR", help="overrides the project file")
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
    parser.add_argument(
        "-k", "--keep-going", action="store_true", help="build what a failure does not affect"
    )
    parser.add_argument(
        "--dump-ir", type=path, metavar="DIR", help="write the IR after every stage; cached steps run again"
    )
    parser.add_argument("--trace", type=path, metavar="FILE", help="write a trace for Perfetto or Chrome")


def add_targets(parser: Parser, meaning: str) -> None:
    """``-t``, for what ``meaning`` says."""
    parser.add_argument(
        "-t", "--target", action="append", default=[], metavar="TARGET", dest="targets",
        help=f"{meaning}; may be repeated",
    )  # fmt: skip


def add_modules(parser: Parser, meaning: str) -> None:
    """``--module``, for what ``meaning`` says."""
    parser.add_argument(
        "--module", action="append", default=[], metavar="NAME", dest="modules",
        help=f"{meaning}; may be repeated",
    )  # fmt: skip


def add_json(parser: Parser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, nothing else there")


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    text: str,
    *,
    epilog: str = "",
    handler: str | None = None,
    verbose: str = "also show steps that had nothing to do",
) -> Parser:
    """A command of its own; ``handler`` is where it is carried out: ``module:function``, imported then.

    ``verbose`` is what ``-v`` does.
    """
    parser = commands.add_parser(
        name,
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=Text,
        allow_abbrev=False,
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("-v", "--verbose", action="store_true", help=verbose)
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


def load(options: argparse.Namespace) -> Project:
    """The project that ``-f`` names. Raises ``ConfigError``."""
    from gpubuild.config.load import load_project

    return load_project(options.file)


def build_folder(options: argparse.Namespace, root: Path) -> Path:
    """The absolute build folder: as given, from here; by default ``build`` in the project."""
    return Path.cwd() / options.build_dir if options.build_dir else root / "build"


def shown(path: Path) -> str:
    """``path`` as a user here would write it: relative when it lies below the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
