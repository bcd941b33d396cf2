"""Write the tables of docs/reference/upstream-programs.md from a checkout of llvm-project:

PYTHONPATH=tests python -m upstream.table CHECKOUT
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from devices import at_hand
from upstream.programs import (
    FOLDER,
    OPENCL_GROUPS,
    OPENCL_TARGETS,
    TARGETS,
    Built,
    UpstreamProgram,
    build,
    discover,
    run,
)

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/upstream-programs.md"
BEGIN, END = "<!-- table: tests/upstream/table.py -->", "<!-- end of the table -->"
OPENCL_BEGIN = "<!-- table of OpenCL: tests/upstream/table.py -->"
_VERSION = re.compile(r"set\(LLVM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)\)")
# What the results do not say by themselves.
_NOTES = {
    "CUDA/assert": "The CHECK lines are the text of CUDA's `__assertfail`.",
    "CUDA/dump-ptx": "Upstream stops at PTX, which ptxas refuses.",
    "CUDA/dump-sass": "SASS is not printed.",
    "CUDA/concurrent-kernels": "Two kernels that wait for each other.",
    "CUDA/TensorCore/wmma-matmul-f32-bare-ptr": "Kernels take whole descriptors here, which does not show.",
}


def version_of(checkout: Path) -> str:
    """Which LLVM a checkout is: the version it says, and the commit where git knows one."""
    stated = checkout / "cmake/Modules/LLVMVersion.cmake"
    version = ".".join(_VERSION.findall(stated.read_text())) if stated.is_file() else ""
    if (checkout / ".git").exists():
        command = ["git", "-C", checkout, "rev-parse", "--short=12", "HEAD"]
        version += " " + subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return version.strip() or "unknown version"


def results(checkout: Path, project: Path) -> list[tuple[UpstreamProgram, Built, str]]:
    """Each program, for what it builds, and how it ends on the CPU; empty where it cannot be run there."""
    programs = discover(checkout)
    built = build(programs, project)
    found = []
    for program in programs:
        runs = program.has_main and "cpu" in built[program.id].targets
        found.append((program, built[program.id], run(program, project, "cpu") if runs else ""))
    return found


def opencl_results(checkout: Path, project: Path, variables: dict[str, str]) -> dict[str, str]:
    """How each program with a ``main`` ends on OpenCL, or why it has no SPIR-V."""
    programs = [p for p in discover(checkout, OPENCL_GROUPS) if p.has_main]
    built = build(programs, project, OPENCL_TARGETS)
    return {
        p.name: run(p, project, at_hand.OPENCL, **variables)
        if built[p.id].targets
        else f"no: {next(iter(built[p.id].reasons.values()))}"
        for p in programs
    }


def opencl_table(found: dict[str, str]) -> str:
    """The table of OpenCL, as it stands on the page."""
    lines = ["| program | on OpenCL |", "|---|---|"]
    lines += [f"| `{name}` | {_escaped(ended)} |" for name, ended in found.items()]
    return "\n".join(lines) + "\n"


def table(found: list[tuple[UpstreamProgram, Built, str]]) -> str:
    """The table, as it stands on the page."""
    lines = ["| program | builds for | errors of the other GPUs | on the CPU |", "|---|---|---|---|"]
    for program, built, ended in found:
        targets = "all" if built.targets == TARGETS else ", ".join(f"`{t}`" for t in built.targets) or "none"
        passes = f', with `passes: {{source: "{program.passes}"}}`' if program.passes else ""
        here = built.reasons.get("cpu") or built.reasons.get("") or ""
        said = ended or (f"not run: {here}" if program.has_main else "no `main`")
        others = "; ".join(
            dict.fromkeys(reason for target, reason in built.reasons.items() if target != "cpu")
        )
        note = f" {_NOTES[program.name]}" if program.name in _NOTES else ""
        lines.append(
            f"| `{program.name}`{passes} | {targets} | {_escaped(others)} | {_escaped(said)}.{note} |"
        )
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").rstrip(".")


def stored(begin: str = BEGIN) -> str:
    """The table that the page has, without the line that says of what it is."""
    return PAGE.read_text().partition(begin)[2].partition(END)[0].partition("\n\n")[2]


def main(checkout: Path) -> None:
    """Build and run all programs of ``checkout``; rewrite the page."""
    with tempfile.TemporaryDirectory() as scratch:
        _write(BEGIN, checkout, table(results(checkout, Path(scratch))))
    if (variables := at_hand.opencl()) is not None:
        with tempfile.TemporaryDirectory() as scratch:
            _write(OPENCL_BEGIN, checkout, opencl_table(opencl_results(checkout, Path(scratch), variables)))


def _write(begin: str, checkout: Path, text: str) -> None:
    before, _, rest = PAGE.read_text().partition(begin)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    stamp = f"LLVM {version_of(checkout)}, `{FOLDER}`, {today}:"
    PAGE.write_text(f"{before}{begin}\n{stamp}\n\n{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
