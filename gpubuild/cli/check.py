"""``gpubuild check``: read and verify the project and its sources, and compile nothing."""

from __future__ import annotations

import argparse

from gpubuild.cli.build import exit_code
from gpubuild.cli.console import Console
from gpubuild.cli.options import build_request, load
from gpubuild.cli.progress import PlainView
from gpubuild.model.result import BuildReport
from gpubuild.support.text import counted, shown_path


def execute(options: argparse.Namespace) -> int:
    """Run the command: 0 if no error was found, else the exit code that a build would have."""
    from gpubuild.build.opening import open_builder

    console: Console = options.console
    project = load(options)
    request = build_request(options, project.root, jobs=options.jobs, keep_going=True, dry_run=True)
    with (
        PlainView(console, to_err=True, explain=False, listed=()) as view,
        open_builder(project, options.settings, request, view, threads=False) as builder,
    ):
        report = builder.build()
    for warning in (*report.advice, *report.warnings):
        console.warning(warning)
    programs = request.programs or tuple(project.programs)
    if options.json:
        from gpubuild.cli.json_document import build_document, dump

        console.print(dump(build_document(report, programs, shown_path)))
    elif not console.quiet:
        console.print(_summary(report, len(programs)))
    return exit_code(report)


def _summary(report: BuildReport, programs: int) -> str:
    """Return ``1 program, 1 gpu.module, 4 targets, 11 steps: no errors``, or the number of errors."""
    errors = sum(step.error is not None for step in report.steps)
    if errors:
        return counted(errors, "error")  # what else there is cannot be known
    modules = {(step.program, step.module) for step in report.steps if step.module}
    targets = {step.target for step in report.steps if step.target}
    found = ", ".join(
        counted(count, noun)
        for count, noun in (
            (programs, "program"),
            (len(modules), "gpu.module"),
            (len(targets), "target"),
            (len(report.steps), "step"),
        )
    )
    return f"{found}: no errors"
