"""``gpubuild run``: build a program, then become it; or run and check every one of them."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import cast

from gpubuild.cli.build import Outcome, build, exit_code
from gpubuild.cli.console import Console, labelled, paint
from gpubuild.cli.options import load
from gpubuild.errors import EXIT_STEP_FAILED, UsageError
from gpubuild.model.build_options import Goal
from gpubuild.model.jit_program import JitProgram
from gpubuild.model.step import LinkParams, Step
from gpubuild.plan.layout import Layout
from gpubuild.settings import program_environment, python_command
from gpubuild.support.text import suggestion


def execute(options: argparse.Namespace) -> int:
    """The command."""
    if options.all:
        return _run_all(options)
    name = choose_program(options)
    options.programs = [name]
    # The program's output is the result: progress must not mix with it.
    outcome = build(options, to_err=True, goal=Goal.JIT if options.jit else Goal.EXECUTABLE)
    command = _commands(options, outcome).get(name)
    if command is None or not outcome.report.ok:
        _tell_failure(options, outcome)
        return exit_code(outcome.report) or EXIT_STEP_FAILED
    return _become([*command, *options.program_arguments])


def _tell_failure(options: argparse.Namespace, outcome: Outcome) -> None:
    """End as a failed build ends. One that succeeded leaves the last word to the program."""
    if not options.quiet:
        for line in outcome.ending():
            options.console.note(labelled(line, on=options.console.color_err))


def _commands(options: argparse.Namespace, outcome: Outcome) -> dict[str, list[str]]:
    """How to run each program that was built."""
    if options.jit:
        return _jit_commands(outcome)
    return {name: [str(path)] for name, path in outcome.report.executables.items()}


def _jit_commands(outcome: Outcome) -> dict[str, list[str]]:
    """The command line for each program of a build with the goal JIT. Raises ``UsageError``."""
    layout = Layout(root=outcome.project.root, build_dir=outcome.build_dir)
    return {name: _jit_command(name, step, layout) for name, step in outcome.report.links.items()}


def _jit_command(name: str, step: Step, layout: Layout) -> list[str]:
    params = cast(LinkParams, step.params)
    if params.wrapper_triple:
        raise UsageError(
            f"program {name} cannot run without being linked: offload: clang links its device code, too",
            hint=f"gpubuild run {name}, without --jit, or offload: dispatch",
        )
    if params.flags:
        raise UsageError(
            f"program {name} cannot run without being linked: it has link: flags: {' '.join(params.flags)}",
            hint=f"gpubuild run {name}, without --jit",
        )
    archives = [item.path.name for item in step.inputs if item.name.startswith("archive.")]
    if archives:
        raise UsageError(
            f"program {name} cannot run without being linked: {archives[0]} is an archive",
            hint=f"list its objects (.o) under sources:, or gpubuild run {name}, without --jit",
        )
    program = JitProgram(
        name=str(layout.executable(name)),
        objects=tuple(str(i.path) for i in step.inputs if i.name.startswith("object.")),
        runtime=str(layout.runtime_library),
        libraries=params.libraries,
        cxx=params.cxx,
    )
    return program.command(python_command()[0])


def choose_program(options: argparse.Namespace) -> str:
    """The one program that is meant. Raises ``UsageError``."""
    known = tuple(load(options).programs)
    if len(options.programs) > 1:
        given = " ".join(options.programs)
        raise UsageError(
            f"run takes one program, not {len(options.programs)}: {given}",
            hint=f"put the program's own arguments after --: "
            f"gpubuild run {options.programs[0]} -- {' '.join(options.programs[1:])}",
        )
    if options.programs:
        name: str = options.programs[0]
        if name not in known:
            raise UsageError(
                f"there is no program {name!r} in {options.file}{suggestion(name, known)}",
                hint="programs: " + ", ".join(known),
            )
        return name
    if len(known) != 1:
        raise UsageError(
            f"which program? {options.file} has " + ", ".join(known),
            hint=f"gpubuild run {known[0]}, or gpubuild run --all" if known else "add one under programs:",
        )
    return known[0]


def _become(command: list[str]) -> int:
    """Replace this process: exit code, signals, terminal and standard input are the program's."""
    sys.stdout.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these, and so would the program
    try:
        os.execve(  # noqa: S606 - the user asked for this very program, without a shell
            command[0], command, program_environment()
        )
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error


def _run_all(options: argparse.Namespace) -> int:
    from gpubuild.cli.run_checks import check_program, expected_file, render, summarize

    if options.program_arguments:
        raise UsageError(
            "--all runs every program without arguments", hint="name one program to give it some"
        )
    console: Console = options.console
    outcome: Outcome = build(options, to_err=True, goal=Goal.JIT if options.jit else Goal.EXECUTABLE)
    commands = _commands(options, outcome)
    checks = []
    width = max(map(len, commands), default=0)
    for name, command in commands.items():
        check = check_program(name, command, expected_file(outcome.project.programs[name]))
        checks.append(check)
        text = render(check, width)
        word = "ok" if check.ok else "FAILED"
        style = "green" if check.ok else "red"
        console.print(text.replace(f"  {word}  ", f"  {paint(word, style, on=console.color_out)}  ", 1))
        console.out.flush()
    console.print(summarize(checks))
    if not outcome.report.ok:
        _tell_failure(options, outcome)
        return exit_code(outcome.report)
    return 0 if all(check.ok for check in checks) else EXIT_STEP_FAILED
