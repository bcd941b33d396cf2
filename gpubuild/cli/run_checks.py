"""Checking: run built programs and compare what they print with what was expected."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubuild.model.project import Program
from gpubuild.settings import program_environment
from gpubuild.toolchain.run import run_tool

EXPECTED = "expected.txt"  # beside a program's first source
_TIMEOUT_SECONDS = 600.0
# print functions of memrefs show where the buffer happened to lie
_ADDRESS = re.compile(rb"\b0x[0-9a-fA-F]+\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """How one run ended. ``problem`` is empty when it went well; ``checked`` tells if output was known.

    ``result`` is the last line the program printed, ``output`` all of it, then what it complained.
    """

    name: str
    problem: str
    checked: bool
    result: str
    output: str

    @property
    def ok(self) -> bool:
        """Whether the program exited with 0 and printed what it should."""
        return not self.problem


def expected_file(program: Program) -> Path | None:
    """``expected.txt`` beside the program's first source, if there is one."""
    path = program.sources[0].parent / EXPECTED
    return path if path.is_file() else None


def check_program(name: str, command: Sequence[str | Path], expected: Path | None) -> Check:
    """Run ``command`` in an empty folder, in the user's environment.

    Without ``expected`` only the exit code counts. Addresses in the output are not compared.
    """
    with tempfile.TemporaryDirectory(prefix="gpubuild-run-") as folder:
        done = run_tool(
            command,
            cwd=Path(folder),
            environment=program_environment(),
            timeout_seconds=_TIMEOUT_SECONDS,
        )
    output = (done.stdout + done.stderr).decode(errors="replace")
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    problem = ""
    if done.returncode < 0:
        problem = f"was killed by signal {-done.returncode}"
    elif done.returncode:
        problem = f"exited with {done.returncode}"
    elif expected is not None:
        problem = _difference(_lines(expected.read_bytes()), _lines(done.stdout))
    return Check(
        name=name,
        problem=problem,
        checked=expected is not None,
        result=lines[-1] if lines else "",
        output=output,
    )


def render(check: Check, width: int = 0) -> str:
    """One line when all is well; else also what the program printed."""
    verdict = "ok" if check.ok else "FAILED"
    # Programs like to begin their last line with their own name.
    result = check.result.removeprefix(f"{check.name}:").strip()
    if check.ok:
        note = "" if check.checked else "  (not compared: no expected.txt)"
        return f"{check.name:{width}}  {verdict}  {result}{note}"
    printed = "".join(f"\n  | {line}" for line in check.output.rstrip().splitlines())
    return f"{check.name:{width}}  {verdict}  {check.problem}{printed}"


def summarize(checks: Iterable[Check]) -> str:
    """``10 programs: 10 ok``."""
    found = list(checks)
    failed = [c.name for c in found if not c.ok]
    text = f"{len(found)} program{'' if len(found) == 1 else 's'}: {len(found) - len(failed)} ok"
    return text + (f", {len(failed)} failed ({', '.join(failed)})" if failed else "")


def _lines(data: bytes) -> list[str]:
    text = _ADDRESS.sub(b"0x", data).decode(errors="replace")
    return [line.rstrip() for line in text.rstrip().splitlines()]


def _difference(expected: list[str], printed: list[str]) -> str:
    for number, (want, got) in enumerate(zip(expected, printed, strict=False), 1):
        if want != got:
            return f"line {number}: expected {want!r}, printed {got!r}"
    if len(expected) != len(printed):
        return f"printed {len(printed)} lines, expected {len(expected)}"
    return ""
