"""Launch overhead: what a kernel that does nothing costs. Part of bench/cpu_kernels.py; alone:

python bench/cpu_launch.py [ROUNDS]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import ROOT

EMPTY = "gpu.module @empty { gpu.func @nothing() kernel { gpu.return } }"
ROWS = (
    "launch and wait, 1 workgroup",
    "launch and wait, 64 workgroups",
    "launches in a row, one wait",
    "launch and wait, 2 host threads",
)
COUNT = 20_000
GOAL_US = 2.0  # launch and wait, on an idle machine


def launch_lines(folder: Path, rounds: int) -> list[str]:
    """A table of microseconds per launch through the whole runtime, with one thread and with two."""
    from e2e.cpu_harness import compile_module

    image = compile_module(EMPTY, folder / "empty", chip="native") / "object"
    runtime = ROOT / "gpubuild" / "runtime"
    sources = sorted([*runtime.glob("*/*.c"), *runtime.glob("*/*.S")])
    program = folder / "launch"
    command = ["cc", "-std=c11", "-O2", "-pthread", f"-I{runtime}", ROOT / "bench/kernels/launch.c", *sources]
    subprocess.run([*command, "-o", program, "-lm", "-ldl"], check=True)
    columns = []
    for threads in (1, 2):
        environment = os.environ | {"GPUBUILD_CPU_THREADS": str(threads), "GPUBUILD_DEVICE": "cpu"}
        runs = [
            subprocess.run(
                [program, image, "nothing", str(COUNT)],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for _ in range(rounds)
        ]
        columns.append([statistics.median(float(run[i]) for run in runs) / 1000 for i in range(len(ROWS))])
    lines = [
        "## Launch of an empty kernel",
        "",
        "| µs per launch | 1 thread | 2 threads |",
        "|---|---:|---:|",
    ]
    lines += [f"| {row} | {one:.2f} | {two:.2f} |" for row, one, two in zip(ROWS, *columns, strict=True)]
    worst = max(column[0] for column in columns)
    verdict = "met" if worst <= GOAL_US else "missed"
    return [
        *lines,
        "",
        f"Goal: at most {GOAL_US:.0f} µs for one workgroup, with the wait: {verdict} ({worst:.2f} µs).",
    ]


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    with tempfile.TemporaryDirectory() as scratch:
        rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
        print("\n".join(launch_lines(Path(scratch), rounds)))
