"""The argument parser, and options that several commands share."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpubuild.cli.quick import FLAG, FORM, NUMBER, OPTIONS, PATH, PROFILE, TEXT, WORD, WORDS, find_project
from gpubuild.errors import UsageError
from gpubuild.model.project import BuildOptions, Project, Variant
from gpubuild.support.text import did_you_mean, nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


PROJECT = ("file", "build_dir", "profile", "assignments", "defines")  # what decides a plan, with the targets


class Text(argparse.RawDescriptionHelpFormatter):
    """Format a help text.

    argparse makes a formatter for every option to check it. The default width comes from ``shutil``,
    which loads bz2 and lzma.
    """

    columns = 80

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=self.columns - 2)


class Parser(argparse.ArgumentParser):
    """A parser that raises ``UsageError``, with the option or word that was probably meant."""

    def format_help(self) -> str:
        """Return the help, as wide as the terminal."""
        import shutil

        Text.columns = shutil.get_terminal_size().columns
        return super().format_help()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # argparse ignores write errors.
        if message and file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError``."""
        hint = f"see `{self.prog} --help`"
        near = self._near(message)
        if not near and self.prog.endswith(" run") and message.startswith("unrecognized"):
            hint = f"arguments of the program follow `--`; {hint}"
        if message.startswith("unrecognized arguments: -C"):
            hint = f"-C comes before the command, as in `gpubuild -C DIR {self.prog.split()[-1]}`"
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
            spellings = {s.lstrip("-"): s for a in self._actions for s in a.option_strings}
            close = nearest(unknown[1].split("=")[0].lstrip("-"), spellings, cutoff=0.7)
            return f" (did you mean '{spellings[close[0]]}'?)" if close else ""
        meant = did_you_mean(wanted, known, cutoff=0.65)  # `all` is not `install`
        return f" ({meant})" if meant else ""


def add_options(parser: Parser, *names: str, text: str = "") -> None:
    """Add options of the table; ``text`` replaces the help."""
    for name in names:
        spellings, kind, metavar, usual = OPTIONS[name]
        if kind == FLAG:
            parser.add_argument(*spellings, dest=name, action="store_true", help=text or usual)
            continue
        default = Path(find_project()) if name == "file" else {NUMBER: 0, WORDS: []}.get(kind)
        parser.add_argument(
            *spellings, dest=name, metavar=metavar, default=default, help=text or usual,
            action="append" if kind == WORDS else "store", type=_TYPES[kind],
        )  # fmt: skip


def add_build_options(parser: Parser) -> None:
    """Add the options of every command that builds."""
    names = (*PROJECT, "jobs", "targets", "cache_dir", "no_cache", "keep_going")
    add_options(parser, *names, "executor", "no_fallback", "insecure_remote", "dump_ir", "trace")
    add_options(parser, "message_format")


def add_modules(parser: Parser, meaning: str) -> None:
    """Add ``--module``."""
    parser.add_argument(
        "--module", action="append", default=[], metavar="NAME", dest="modules",
        help=f"{meaning}; may be repeated",
    )  # fmt: skip


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    text: str,
    *,
    epilog: str = "",
    handler: str | None = None,
    verbose: str = argparse.SUPPRESS,
) -> Parser:
    """Add a command. ``handler``, as ``module:function``, is imported when the command runs.

    ``verbose`` is the help of ``-v``, which all commands accept and few need.
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
    """Return a function that imports and calls ``handler``."""
    module, _, function = handler.partition(":")

    def call(options: argparse.Namespace) -> int:
        result: int = getattr(importlib.import_module(module), function)(options)
        return result

    return call


def positive(text: str) -> int:
    """Convert a number of steps or work-items, for ``type=``."""
    if not text.isdigit() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 4096, not {text!r}")
    return int(text)


def path(text: str) -> Path:
    """Convert a path, for ``type=``; an empty one, of an unset variable for example, is an error."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got nothing")
    return Path(text)


def word(text: str) -> str:
    """Convert the name of a profile, which is part of a folder's name, for ``type=``."""
    if not re.fullmatch(PROFILE, text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid name of a profile")
    return text


def message_format(text: str) -> str:
    """Convert the form of errors and warnings, for ``type=``."""
    if text == "sarif":
        raise argparse.ArgumentTypeError("name the file to write, as sarif:errors.sarif")
    if text not in ("text", "github") and not re.match("sarif:.", text):
        raise argparse.ArgumentTypeError(f"expected text, github or sarif:FILE, not {text!r}")
    return text


_TYPES: dict[str, Callable[[str], object]] = {
    **{NUMBER: positive, PATH: path, TEXT: str},
    **{FORM: message_format, WORD: word, WORDS: str},
}


def load(options: argparse.Namespace) -> Project:
    """Load the project that ``-f`` names, with the changes that options request. Raises ``ConfigError``."""
    from gpubuild.config.load import load_project

    return load_project(options.file, variant_of(options))


def variant_of(options: argparse.Namespace) -> Variant:
    """Return what options change in the project file."""
    return Variant(
        profile=getattr(options, "profile", None) or "",
        settings=tuple(getattr(options, "assignments", ())),
        defines=tuple(getattr(options, "defines", ())),
        targets=tuple(dict.fromkeys(getattr(options, "targets", ()))),
    )


def build_folder(options: argparse.Namespace, root: Path) -> Path:
    """Return the absolute build folder: ``--build-dir``, else ``build`` or ``build-PROFILE``."""
    if options.build_dir:
        return Path.cwd() / str(options.build_dir)
    return root / variant_of(options).build_folder


def build_request(options: argparse.Namespace, root: Path, **more: Any) -> BuildOptions:  # noqa: ANN401
    """Return the build folder, programs and targets that options name, with ``more`` of a build's options."""
    return BuildOptions(
        build_dir=build_folder(options, root),
        programs=tuple(dict.fromkeys(getattr(options, "programs", ()))),
        targets=tuple(dict.fromkeys(options.targets)),
        **more,
    )
