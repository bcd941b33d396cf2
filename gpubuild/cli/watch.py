"""``gpubuild watch``: build, then build again whenever a file changes; ``--run`` runs the program again."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from gpubuild.build.watch import (
    LOOK_SECONDS,
    Seen,
    around_build,
    baseline,
    changes,
    configured_files,
    folders_in,
    look,
    read_by_build,
    settle,
)
from gpubuild.cli.build import build
from gpubuild.cli.console import Console, labelled, paint
from gpubuild.cli.options import build_folder
from gpubuild.config.load import load_project
from gpubuild.errors import GpubuildError, InterruptedBuildError, UsageError
from gpubuild.plan.layout import Layout
from gpubuild.settings import program_environment
from gpubuild.support.file_stamp import Stat
from gpubuild.support.text import shown_path
from gpubuild.toolchain.run import Foreground

_LISTED = 3


def execute(options: argparse.Namespace) -> int:
    """The command. It ends by Ctrl-C only, with the exit code of an interrupted command."""
    console: Console = options.console
    if options.program_arguments and not options.run:
        raise UsageError("arguments after -- are the program's, which --run runs", hint="add --run")
    if options.run and len(options.programs) > 1:
        given = " ".join(options.programs)
        raise UsageError(f"--run runs one program, not {len(options.programs)}: {given}", hint="name one")
    if not options.file.is_file():
        load_project(options.file)  # to say what is wrong
    root = options.file.absolute().parent
    layout = Layout(root=root, build_dir=build_folder(options, root))
    program: Foreground | None = None
    try:
        while True:
            before = look([*configured_files(options.file, load_project), *read_by_build(layout)])
            ok, executable = _build(options)
            # What the file names now: it may have been changed, too.
            named = configured_files(options.file, load_project)
            seen = baseline(before, named, read_by_build(layout))
            seen = _around(options.file, layout, ok=ok) | seen
            if not ok:
                seen |= look(folders_in(root, layout.build_dir))
            if executable is not None:
                program = Foreground(executable, options.program_arguments, program_environment())
            elif not options.quiet:
                console.note(paint("watching for changes; stop with Ctrl-C", "dim", on=console.color_err))
            _wait(seen, program, console)
            changed = settle(seen)
            if program is not None:
                program.stop()
                program = None
            if not options.quiet:
                console.note(paint(_told(changed), "bold", on=console.color_err))
    except KeyboardInterrupt:
        raise InterruptedBuildError("stopped watching") from None
    finally:
        if program is not None:
            program.stop()


def _around(file: Path, layout: Layout, *, ok: bool) -> dict[Path, Stat | None]:
    try:
        return around_build(layout, load_project(file), ok=ok)
    except GpubuildError:  # the build has told
        return {}


def _build(options: argparse.Namespace) -> tuple[bool, Path | None]:
    """Build, and show what is wrong with it: whether all is well, and the program to run, if any."""
    console: Console = options.console
    try:
        name = _program(options) if options.run else ""
        outcome = build(options, to_err=True)
    except InterruptedBuildError:
        raise
    except GpubuildError as error:  # to be fixed in some file
        console.error(error)
        return False, None
    report = outcome.report
    if not options.quiet:
        for line in outcome.ending():
            console.note(labelled(line, on=console.color_err))
    return report.ok, report.executables.get(name) if report.ok else None


def _program(options: argparse.Namespace) -> str:
    """The one program to run, which is then the one to build. Raises ``UsageError``, ``ConfigError``."""
    if len(options.programs) == 1:
        name: str = options.programs[0]
        return name
    known = tuple(load_project(options.file).programs)
    if options.programs or len(known) != 1:
        raise UsageError(
            f"--run runs one program; {options.file} has " + ", ".join(known),
            hint=f"gpubuild watch --run {known[0]}" if known else "add one under programs:",
        )
    return known[0]


def _wait(seen: Seen, program: Foreground | None, console: Console) -> None:
    """Until a file is another; meanwhile show how the program ended."""
    told = program is None
    while not changes(seen):
        if program is not None and not told and (code := program.ended()) is not None:
            told = True
            how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
            if not console.quiet:
                text = f"{how}; watching for changes, stop with Ctrl-C"
                console.note(paint(text, "dim" if code == 0 else "red", on=console.color_err))
        time.sleep(LOOK_SECONDS)


def _told(changed: list[Path]) -> str:
    listed = ", ".join(f"{shown_path(path)}{'/' * path.is_dir()}" for path in changed[:_LISTED])
    more = f" and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
    return f"changed: {listed}{more}" if changed else "changed, and back again"
