"""``gpubuild run``: build a program and run it; with ``--all``, run all programs and check their output."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpubuild import environment
from gpubuild.cli.build import Outcome, build, exit_code
from gpubuild.cli.console import Console, labelled, paint
from gpubuild.cli.options import load
from gpubuild.cli.test import Check, run_case
from gpubuild.errors import EXIT_STEP_FAILED, UsageError
from gpubuild.model.project import Case, Product, Program
from gpubuild.support.text import counted, suggestion

EXPECTED = "expected.txt"  # beside a program's first source
_TIMEOUT_SECONDS = 600


def expected_file(program: Program) -> Path | None:
    """Return ``expected.txt`` beside the program's first source, if it exists."""
    path = program.sources[0].parent / EXPECTED
    return path if path.is_file() else None


def check_program(name: str, command: Sequence[str | Path], expected: Path | None) -> Check:
    """Run ``command`` in an empty folder and compare its output with ``expected``."""
    return run_case(name, command, Case(name=name, stdout_file=expected, timeout_seconds=_TIMEOUT_SECONDS))


def render(check: Check, width: int = 0) -> str:
    """Return a line, and after a failure also the output."""
    verdict = "ok" if check.ok else "FAILED"
    # Programs often begin their last line with their name.
    result = check.result.removeprefix(f"{check.name}:").strip()
    if check.ok:
        note = "" if check.checked else "  (not compared: no expected.txt)"
        return f"{check.name:{width}}  {verdict}  {result}{note}"
    printed = "".join(f"\n  | {line}" for line in check.output.rstrip().splitlines())
    return f"{check.name:{width}}  {verdict}  {check.problem}{printed}"


def summarize(checks: Iterable[Check]) -> str:
    """Return ``10 programs: 10 ok``."""
    found = list(checks)
    failed = [c.name for c in found if not c.ok]
    text = f"{counted(len(found), 'program')}: {len(found) - len(failed)} ok"
    return text + (f", {len(failed)} failed ({', '.join(failed)})" if failed else "")


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    if options.all:
        return _run_all(options)
    name = choose_program(options)
    options.programs = [name]
    # The program's output is the result: progress must not mix with it.
    outcome = build(options, to_err=True)
    program = outcome.report.executables.get(name)
    if program is None or not outcome.report.ok:
        _print_failure(options, outcome)
        return exit_code(outcome.report) or EXIT_STEP_FAILED
    if options.console.messages is not None:
        options.console.messages.finish()  # the program replaces this process
    return _become([str(program), *options.program_arguments])


def _print_failure(options: argparse.Namespace, outcome: Outcome) -> None:
    """Print the last lines of a failed build."""
    if not options.quiet:
        for line in outcome.ending():
            options.console.note(labelled(line, on=options.console.color_err))


def choose_program(options: argparse.Namespace, command: str = "run") -> str:
    """Return the one program that ``command`` is for. Raises ``UsageError`` and ``ConfigError``."""
    programs = load(options).programs
    known = tuple(programs)
    if len(options.programs) > 1:
        first, *others = options.programs
        raise UsageError(
            f"{command} is for one program, not {len(options.programs)}: {' '.join(options.programs)}",
            hint=""
            if command == "export"
            else "put the arguments of the program after --: "
            f"gpubuild {command} {first} -- {' '.join(others)}",
        )
    if options.programs:
        name: str = options.programs[0]
        if name not in known:
            raise UsageError(
                f"there is no program {name!r} in {options.file}{suggestion(name, known)}",
                hint="programs: " + ", ".join(known),
            )
        return _executable(programs[name], command)
    if len(known) != 1:
        raise UsageError(
            f"name a program: {options.file} has " + ", ".join(known),
            hint=f"gpubuild {command} {known[0]}" + ", or gpubuild run --all" * (command == "run"),
        )
    return _executable(programs[known[0]], command)


def _executable(program: Program, command: str) -> str:
    """Return the name of the program. Raises ``UsageError`` for a library or an object."""
    if program.product is not Product.EXECUTABLE:
        raise UsageError(
            f"{command} is for executables, and {program.name} has `product: {program.product}`",
            hint="build it, or copy it with `gpubuild install`; docs/how-to/embedding.md shows how to use it",
        )
    return program.name


def _become(command: list[str]) -> int:
    """Replace this process by the program, which then gets signals, terminal and standard input."""
    sys.stdout.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these; a program inherits that
    try:
        os.execve(command[0], command, environment.whole())  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from error


def _run_all(options: argparse.Namespace) -> int:
    if options.program_arguments:
        raise UsageError(
            "--all runs every program without arguments", hint="name one program to pass arguments"
        )
    console: Console = options.console
    outcome: Outcome = build(options, to_err=True)
    declared = outcome.project.programs
    programs = {
        name: path
        for name, path in outcome.report.executables.items()
        if declared[name].product is Product.EXECUTABLE
    }
    checks = []
    width = max(map(len, programs), default=0)
    for name, program in programs.items():
        check = check_program(name, [program], expected_file(declared[name]))
        checks.append(check)
        text = render(check, width)
        word = "ok" if check.ok else "FAILED"
        style = "green" if check.ok else "red"
        console.print(text.replace(f"  {word}  ", f"  {paint(word, style, on=console.color_out)}  ", 1))
        console.out.flush()
    console.print(summarize(checks))
    if not outcome.report.ok:
        _print_failure(options, outcome)
        return exit_code(outcome.report)
    return 0 if all(check.ok for check in checks) else EXIT_STEP_FAILED
