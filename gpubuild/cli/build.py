"""``gpubuild build``: bring programs up to date."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpubuild import environment
from gpubuild.cli.console import Console, closing_lines, labelled
from gpubuild.cli.options import build_request, variant_of
from gpubuild.cli.progress import make_view, summary_line
from gpubuild.errors import EXIT_STEP_FAILED, GpubuildError, InterruptedBuildError, UsageError
from gpubuild.model.project import Project
from gpubuild.model.result import FIRST_BUILD, BuildReport, Status
from gpubuild.model.step import StepKind
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import shown_path
from gpubuild.targets.registry import vendor


@frozen
class Outcome:
    """A finished build of ``programs``."""

    project: Project
    programs: tuple[str, ...]
    build_dir: Path
    report: BuildReport
    dry_run: bool = False

    def ending(self) -> list[str]:
        """Return the summary line, and lines that list failed steps and those that were not tried."""
        closing = closing_lines(self.report, programs=len(self.programs))
        return [summary_line(self.report, dry_run=self.dry_run), *closing]


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    console: Console = options.console
    try:
        outcome = build(options, to_err=options.json)
    except InterruptedBuildError:
        raise
    except GpubuildError as error:
        if options.json:
            from gpubuild.cli.json_document import dump, error_document

            with suppress(OSError):  # the error itself matters more
                console.print(dump(error_document(error)))
        raise
    report = outcome.report
    if options.json:
        from gpubuild.cli.json_document import build_document, dump

        console.print(dump(build_document(report, outcome.programs, shown_path)))
    elif not console.quiet:
        summary, *more = outcome.ending()
        console.print(summary + ("" if options.dry_run else _made(report)))
        for line in more:
            console.print(labelled(line, on=console.color_out))
        if report.note:
            console.print(report.note)
        for line in _faster_chips(outcome) if console.err.isatty() else ():  # not in logs
            console.note(line)
    return exit_code(report)


def _faster_chips(outcome: Outcome) -> Iterator[str]:
    """Yield notes about targets whose default chip is slower than this CPU, when they are compiled first."""
    steps = (s for s in outcome.report.steps if s.kind is StepKind.COMPILE and s.reason == FIRST_BUILD)
    targets = outcome.project.targets
    for name in dict.fromkeys(step.target for step in steps if step.target in targets):
        target = targets[name]
        chip = vendor(target.kind).faster_chip(name, target.chip, os.uname().machine)
        if chip:
            yield (
                f"note: target {name} is for all {target.chip} CPUs; this machine has faster instructions: "
                f"write {name}: {{chip: {chip}}}, or {{chip: native}}"
            )


def build(options: argparse.Namespace, *, to_err: bool, link: bool = True) -> Outcome:
    """Build and show progress, on stderr if ``to_err``.

    Raises ``ConfigError``, ``UsageError`` and ``InterruptedBuildError``. Failures of steps are shown, and
    listed in the report.
    """
    from gpubuild.build.null_build_record import load_witnessed

    project, witness = load_witnessed(options.file, variant_of(options))
    if not link:
        witness = None  # a receipt proves that executables are up to date
    if options.trace and not options.trace.absolute().parent.is_dir():
        raise UsageError(f"cannot write the trace {options.trace}: its folder does not exist")
    if options.dump_ir and options.dump_ir.exists() and not options.dump_ir.is_dir():
        raise UsageError(
            f"cannot write IR into {options.dump_ir}: it is not a folder",
            hint="choose another folder with --dump-ir",
        )
    from gpubuild.build.opening import finished_build, open_builder

    request = build_request(
        options,
        project.root,
        cache_dir=options.cache_dir.absolute() if options.cache_dir else None,
        use_cache=not options.no_cache,
        jobs=options.jobs,
        keep_going=options.keep_going,
        dry_run=getattr(options, "dry_run", False),
        link=link,
        executor=options.executor or "",
        fallback=not options.no_fallback,
        insecure_remote=options.insecure_remote,
        dump_ir=options.dump_ir.absolute() if options.dump_ir else None,
    )
    if not request.dry_run and (report := finished_build(project, options.settings, request)):
        for warning in report.all_warnings:
            options.console.warning(warning)
        programs = tuple(options.programs or project.programs)
        return Outcome(project=project, programs=programs, build_dir=request.build_dir, report=report)
    explain = getattr(options, "explain", False)
    console = _progress_console(options, explain=explain)
    with make_view(console, to_err=to_err, explain=explain, dry_run=request.dry_run) as view:
        tracer = None
        if options.trace:
            from gpubuild.report.trace import Tracer

            tracer = Tracer(view)
        try:
            listener = tracer or view
            with open_builder(
                project, options.settings, request, listener, witness=witness, threads=False
            ) as builder:
                report = builder.build()
        finally:
            if tracer is not None:
                tracer.write(options.trace)
    report = replace(report, warnings=(*report.warnings, *_unread_variables(report)))
    for warning in (*report.advice, *report.warnings):
        console.warning(warning)
    return Outcome(
        project=project,
        programs=tuple(options.programs or project.programs),
        build_dir=request.build_dir,
        report=report,
        dry_run=request.dry_run,
    )


def _unread_variables(report: BuildReport) -> list[str]:
    """Return a warning if C was compiled, and a variable is set that make would have read."""
    compiled = any(s.kind is StepKind.PREPROCESS and s.status is Status.RAN for s in report.steps)
    unread = environment.of_make() if compiled else []
    if not unread:
        return []
    return [
        f"{', '.join(unread)} in the environment: not read; "
        "GPUBUILD_CC and GPUBUILD_CXX name compilers, and `host: {flags: […]}` of targets.yaml has options"
    ]


def exit_code(report: BuildReport) -> int:
    """Return 0, the exit code that all failed steps share (2 for a missing tool), or 1."""
    if report.ok:
        return 0
    codes = {step.error.exit_code for step in report.failed if step.error is not None}
    return codes.pop() if len(codes) == 1 else EXIT_STEP_FAILED


def _progress_console(options: argparse.Namespace, *, explain: bool) -> Console:
    console: Console = options.console
    if not options.json or console.verbose or explain or console.err.isatty():
        return console
    # A script reads stdout and shows stderr after a failure: keep progress out of it.
    return replace(console, quiet=True)


def _made(report: BuildReport) -> str:
    files = [shown_path(path) for path in report.executables.values()]
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return f" → {', '.join(files[:3])}{more}" if files else ""
