"""What a second thread can be worth on this machine: two copies of a C program at once, beside one.

Where two CPUs are threads of one core, or share what memory gives, no run time can make two threads
twice as fast as one; a goal for threads is read beside this.
"""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "kernels" / "scaling.c"
KINDS = ("arithmetic", "memory")


def scaling_lines(folder: Path, rounds: int) -> list[str]:
    """A table of Markdown; one line of text where there is no gcc."""
    program = folder / "scaling"
    try:
        subprocess.run(["gcc", "-O3", "-march=native", SOURCE, "-o", program], check=True)
    except FileNotFoundError:
        return ["No gcc to measure what a second thread is worth here."]
    lines = [
        "## What a second thread can be worth here",
        "",
        "Two copies of the same C program at once, as many times as fast as one after the other:",
        "",
        "| | times |",
        "|---|---:|",
    ]
    for kind in KINDS:
        ratios = []
        for _ in range(rounds):
            alone = _run(program, kind, 1)
            ratios.append(2 * alone / _run(program, kind, 2))
        lines.append(f"| {kind} | {statistics.median(ratios):.2f} |")
    return lines


def _run(program: Path, kind: str, copies: int) -> float:
    """Seconds that the slowest copy took."""
    started = [subprocess.Popen([program, kind], stdout=subprocess.PIPE, text=True) for _ in range(copies)]
    return max(float(process.communicate()[0]) for process in started)
