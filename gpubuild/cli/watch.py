"""``gpubuild watch``: build whenever a file changes; with ``--run``, then run the program again.

While it waits, another process loads the compilers for the next build.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path

import gpubuild
from gpubuild import environment
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
from gpubuild.cli.options import build_folder, load
from gpubuild.cli.run import choose_program
from gpubuild.errors import GpubuildError, InterruptedBuildError, UsageError, WorkspaceError
from gpubuild.execute.local import close_early, start_early
from gpubuild.model.step import CompileParams, OutlineParams, Params
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings
from gpubuild.support.file_stamp import Stat
from gpubuild.support.text import shown_path
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.fingerprint import package_files
from gpubuild.toolchain.run import Foreground

_LISTED = 3  # changed files


def execute(options: argparse.Namespace) -> int:
    """Run the command, until Ctrl-C."""
    console: Console = options.console
    if options.program_arguments and not options.run:
        raise UsageError("arguments after -- are for the program that --run runs", hint="add --run")
    if not options.file.is_file():
        load(options)  # raises the error
    if options.run and len(options.programs) > 1:
        choose_program(options, "watch --run")  # raises the error
    root = options.file.absolute().parent
    layout = Layout(root=root, build_dir=build_folder(options, root))
    program: Foreground | None = None
    loaded = look(_code_files(options.settings))
    try:
        while True:
            before = look([*configured_files(options.file, lambda: load(options)), *read_by_build(layout)])
            ok, executable = _build(options)
            # The project file may have changed during the build.
            named = configured_files(options.file, lambda: load(options))
            seen = baseline(before, named, read_by_build(layout))
            seen = _around(options, layout, ok=ok) | seen
            if not ok:
                seen |= look(folders_in(root, layout.build_dir))
            if executable is not None:
                program = Foreground(executable, options.program_arguments, environment.whole())
            elif not options.quiet:
                console.note(paint("watching for changes; stop with Ctrl-C", "dim", on=console.color_err))
            _load_compilers(options)
            _wait(seen, program, console)
            changed = settle(seen)
            if program is not None:
                program.stop()
                program = None
            if not options.quiet:
                console.note(paint(_list(changed), "bold", on=console.color_err))
            _refuse_changed_code(loaded)
    except KeyboardInterrupt:
        raise InterruptedBuildError("stopped watching") from None
    finally:
        close_early()
        if program is not None:
            program.stop()


def _code_files(settings: Settings) -> list[Path]:
    """Return the files of gpubuild, MLIR and LLVM, which this process and the compilers keep in memory."""
    toolchain = Toolchain(settings)
    for name in ("mlir", "llvmlite"):
        toolchain.find(name)
    used, _ = toolchain.evidence()
    paths = map(Path, (*used, *package_files(Path(gpubuild.__file__).parent)))
    return [path for path in paths if path.is_file()]


def _refuse_changed_code(loaded: Seen) -> None:
    """Raise ``GpubuildError`` after an upgrade: old code would build under the identity of the new."""
    if changed := changes(loaded):
        raise GpubuildError(
            f"gpubuild or its compiler was changed: {shown_path(changed[0])}",
            hint="start `gpubuild watch` again",
        )


def _load_compilers(options: argparse.Namespace) -> None:
    """Let another process load what the next build probably needs."""
    with suppress(GpubuildError, OSError):  # the next build reports it
        targets = load(options).targets
        compiled = [target for name, target in targets.items() if name in (options.targets or targets)]
        params: list[Params] = [OutlineParams()]
        params += (CompileParams(module="", target=target) for target in compiled)
        start_early(options.jobs or options.settings.jobs or len(os.sched_getaffinity(0)), params)


def _around(options: argparse.Namespace, layout: Layout, *, ok: bool) -> dict[Path, Stat | None]:
    try:
        return around_build(layout, load(options), ok=ok)
    except GpubuildError:  # the build has shown it
        return {}


def _build(options: argparse.Namespace) -> tuple[bool, Path | None]:
    """Build and show errors. Return whether the build succeeded, and the program to run, if any."""
    console: Console = options.console
    try:
        name = choose_program(options, "watch --run") if options.run else ""
        outcome = build(options, to_err=True)
    except (InterruptedBuildError, WorkspaceError):
        raise
    except GpubuildError as error:  # an edit may fix it
        console.error(error)
        return False, None
    report = outcome.report
    if not options.quiet:
        for line in outcome.ending():
            console.note(labelled(line, on=console.color_err))
    return report.ok, report.executables.get(name) if report.ok else None


def _wait(seen: Seen, program: Foreground | None, console: Console) -> None:
    """Wait until a file changes; meanwhile show how the program ended."""
    shown = program is None
    while not changes(seen):
        if program is not None and not shown and (code := program.ended()) is not None:
            shown = True
            how = f"killed by signal {-code}" if code < 0 else f"exited with {code}"
            if not console.quiet:
                text = f"{how}; watching for changes, stop with Ctrl-C"
                console.note(paint(text, "dim" if code == 0 else "red", on=console.color_err))
        time.sleep(LOOK_SECONDS)


def _list(changed: list[Path]) -> str:
    listed = ", ".join(f"{shown_path(path)}{'/' * path.is_dir()}" for path in changed[:_LISTED])
    more = f" and {len(changed) - _LISTED} more" if len(changed) > _LISTED else ""
    return f"changed: {listed}{more}" if changed else "changed and restored"
