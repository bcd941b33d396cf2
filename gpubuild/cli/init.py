"""``gpubuild init``: start a project that builds and runs."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.cli.init_templates import OPTIONAL, files
from gpubuild.errors import UsageError
from gpubuild.support.text import shown_path


def execute(options: argparse.Namespace) -> int:
    """The command. Overwrites nothing: it writes all of its files or none."""
    console: Console = options.console
    folder: Path = options.directory
    wanted = files(main=options.main, scons=options.scons, service=options.ci)
    taken = [name for name in wanted if name not in OPTIONAL and _is_there(folder / name)]
    if taken:
        raise UsageError(
            f"{folder / taken[0]} is there already; nothing was written",
            hint="choose another folder: gpubuild init DIR",
        )
    written: list[Path] = []
    made: list[Path] = []
    try:
        for name, text in wanted.items():
            path = folder / name
            _make_folder(path.parent, made)
            if name in OPTIONAL and _is_there(path):
                continue
            with path.open("x", encoding="utf-8") as stream:
                written.append(path)
                stream.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        for path in reversed(made):
            path.rmdir()
        raise UsageError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    if not console.quiet:
        for path in written:
            console.print(f"wrote {shown_path(path.absolute())}")
        into = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
        console.print(f"next: {into}{'scons -Q' if options.scons else 'gpubuild run'}")
    return 0


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it, and note each in ``made``. Raises ``OSError``."""
    if folder.is_dir():
        return
    _make_folder(folder.parent, made)
    folder.mkdir()
    made.append(folder)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()
