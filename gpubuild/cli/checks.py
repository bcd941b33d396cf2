"""Run a program and check what it does: for ``gpubuild test`` and ``gpubuild run --all``."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubuild.errors import StepError
from gpubuild.model.project import Case
from gpubuild.settings import program_environment
from gpubuild.support.text import unified_diff
from gpubuild.toolchain.run import ToolRun, run_tool

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
    environment = {**program_environment(), **(variables or {})}
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
                environment=environment,
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
