"""``gpubuild test``: build programs and run the cases under their ``tests:``."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from gpubuild import environment
from gpubuild.cli.build import build, exit_code
from gpubuild.cli.console import Console, labelled, paint
from gpubuild.cli.options import load
from gpubuild.errors import EXIT_STEP_FAILED, StepError, UsageError
from gpubuild.model.project import Case, Project
from gpubuild.support.frozen import frozen
from gpubuild.support.text import counted, suggestion, unified_diff
from gpubuild.toolchain.run import ToolRun, kill_children, run_tool

_SHOWN_LINES = 40
# XML has no way to write these.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# Print functions of memrefs show addresses.
_ADDRESS = re.compile(rb"\b0x[0-9a-fA-F]+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How a run of a program ended."""

    name: str
    problem: str  # empty after success
    checked: bool  # against an expected output
    result: str  # the last line on stdout
    output: str  # stdout, then stderr
    diff: tuple[str, ...] = ()  # from the expected output
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether the program did what was expected."""
        return not self.problem


def run_case(
    name: str, command: Sequence[str | Path], case: Case, variables: Mapping[str, str] | None = None
) -> Check:
    """Run ``command`` in an empty folder with copies of the case's files, and check what it does.

    Addresses and trailing white space in the output do not count.
    """
    expected = case.stdout_file.read_bytes() if case.stdout_file else case.stdout
    diff: tuple[str, ...] = ()
    checked = expected is not None or case.check is not None
    with tempfile.TemporaryDirectory(prefix="gpubuild-run-") as folder:
        for file, path in case.files.items():
            Path(folder, file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, Path(folder, file))

        def run(argv: Sequence[str | Path], stdin: bytes) -> ToolRun:
            return run_tool(
                argv,
                cwd=Path(folder),
                stdin=stdin,
                environment={**environment.whole(), **(variables or {})},
                timeout_seconds=case.timeout_seconds,
            )

        stdin = case.stdin_file.read_bytes() if case.stdin_file else case.stdin
        try:
            done = run([*command, *case.args], stdin)
            problem = _ending(done.returncode, case.exit_code)
            output = (done.stdout + done.stderr).decode(errors="replace")
            if not problem and expected is not None:
                problem, diff = _difference(_lines(expected), _lines(done.stdout))
            if not problem and case.check is not None:
                checker = run([sys.executable, case.check, *case.args], done.stdout)
                if problem := _ending(checker.returncode, 0):
                    problem = f"{case.check.name} {problem}"
                    output = (checker.stdout + checker.stderr).decode(errors="replace")
        except StepError as error:  # the time-out, too much output
            problem = error.message
            return Check(name=name, problem=problem, checked=checked, result="", output=error.output)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    return Check(
        name=name,
        problem=problem,
        checked=checked,
        result=lines[-1] if lines else "",
        output=output,
        diff=diff,
        seconds=done.seconds,
    )


def _ending(code: int, expected: int) -> str:
    if code == expected:
        return ""
    if code < 0:
        return f"was killed by signal {-code}"
    return f"exited with {code}" + (f" instead of {expected}" if expected else "")


def _lines(data: bytes) -> list[str]:
    text = _ADDRESS.sub(b"0x", data).decode(errors="replace")
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _difference(expected: list[str], printed: list[str]) -> tuple[str, tuple[str, ...]]:
    """Return the first difference in words, and all as a unified diff."""
    if expected == printed:
        return "", ()
    problem = f"printed {len(printed)} lines, expected {len(expected)}"
    for number, (want, got) in enumerate(zip(expected, printed, strict=False), 1):
        if want != got:
            problem = f"line {number}: expected {want!r}, printed {got!r}"
            break
    return problem, unified_diff(expected, printed, "expected", "printed")


@frozen
class Run:
    """A case on one device; an empty ``device`` is the one that the environment chooses."""

    program: str
    case: Case
    device: str = ""

    @property
    def name(self) -> str:
        """Return ``PROGRAM/CASE``, with the device if the case names some."""
        return f"{self.program}/{self.case.name}" + (f" [{self.device}]" if self.device else "")

    def check(self, executable: Path) -> Check:
        """Run it."""
        variables = {"GPUBUILD_DEVICE": self.device} if self.device else {}
        if self.case.sanitize:
            variables["GPUBUILD_CHECK"] = "1"
        return run_case(self.name, [executable], self.case, variables)


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    console: Console = options.console
    runs = choose(load(options), options.cases, options.devices)
    options.programs = list(dict.fromkeys(run.program for run in runs))
    outcome = build(options, to_err=True)
    if not outcome.report.ok:
        if not options.quiet:
            for line in outcome.ending():
                console.note(labelled(line, on=console.color_err))
        return exit_code(outcome.report)
    workers = options.jobs or options.settings.jobs or len(os.sched_getaffinity(0))
    checks = []
    with ThreadPoolExecutor(workers) as pool:
        try:
            for check in pool.map(lambda run: run.check(outcome.report.executables[run.program]), runs):
                checks.append(check)
                if not check.ok or not options.quiet:
                    console.print(render(check, color=console.color_out))
                    console.out.flush()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_children()
            raise
    if options.junit:
        console.save(options.junit, junit(runs, checks) + "\n")
    failed = [check.name for check in checks if not check.ok]
    summary = f"{counted(len(checks), 'case')}: {len(checks) - len(failed)} ok"
    console.print(summary + (f", {len(failed)} failed ({', '.join(failed)})" if failed else ""))
    return EXIT_STEP_FAILED if failed else 0


def choose(project: Project, names: Sequence[str], devices: Sequence[str]) -> list[Run]:
    """Return the runs of programs and ``PROGRAM/CASE`` in ``names`` (all: none), on ``devices`` only.

    Raises ``UsageError`` for a name without cases, and when no run is left.
    """
    runs = [
        Run(program=program.name, case=case, device=device)
        for program in project.programs.values()
        for case in program.tests
        for device in case.devices or devices or ("",)
    ]
    if not runs:
        raise UsageError(
            f"{project.file.name} has no tests",
            hint="list cases under `tests:` of a program (docs/reference/targets-yaml.md)",
        )
    known = dict.fromkeys(n for run in runs for n in (run.program, f"{run.program}/{run.case.name}"))
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no case or program with cases {name!r}{suggestion(name, known)}",
                hint="cases: " + ", ".join(n for n in known if "/" in n),
            )
    chosen = [
        run
        for run in runs
        if (not names or run.program in names or f"{run.program}/{run.case.name}" in names)
        and (not devices or run.device in devices)
    ]
    for run in chosen:
        targets = project.programs[run.program].targets
        if run.case.sanitize and not any(project.targets[name].sanitize for name in targets):
            raise UsageError(
                f"{run.name} runs checked kernels, and no target of {run.program} has `sanitize:`",
                hint="add a checked CPU target (docs/how-to/checked.md)",
            )
    if not chosen:
        raise UsageError("no case runs on " + " or ".join(devices))
    return chosen


def render(check: Check, *, color: bool = False) -> str:
    """Return a line, and after a failure also the difference or the output."""
    if check.ok:
        return f"{paint('ok', 'green', on=color)}      {check.name}"
    lines = check.diff or check.output.rstrip().splitlines()
    if len(lines) > _SHOWN_LINES:
        lines = (*lines[:_SHOWN_LINES], f"… and {len(lines) - _SHOWN_LINES} more lines")
    shown = "".join(f"\n  | {line}" for line in lines)
    return f"{paint('FAILED', 'red', on=color)}  {check.name}: {check.problem}{shown}"


def junit(runs: Sequence[Run], checks: Sequence[Check]) -> str:
    """Return the JUnit document of finished runs."""
    root = ElementTree.Element("testsuites")
    for program in dict.fromkeys(run.program for run in runs):
        of_program = [check for run, check in zip(runs, checks, strict=True) if run.program == program]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=program,
            tests=str(len(of_program)),
            failures=str(sum(not check.ok for check in of_program)),
            time=f"{sum(check.seconds for check in of_program):.3f}",
        )
        suite.extend(_elements(program, of_program))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _elements(program: str, checks: Sequence[Check]) -> Iterator[ElementTree.Element]:
    for check in checks:
        name = check.name.removeprefix(f"{program}/")
        case = ElementTree.Element("testcase", classname=program, name=name, time=f"{check.seconds:.3f}")
        if not check.ok:
            element = ElementTree.SubElement(case, "failure", message=_NOT_IN_XML.sub("�", check.problem))
            element.text = _NOT_IN_XML.sub("�", "\n".join(check.diff) or check.output)
        yield case
