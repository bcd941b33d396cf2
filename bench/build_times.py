"""Time cold, null and one-kernel-edit builds of the repository's examples, and write a table.

Usage: python bench/build_times.py [--rounds 5] [-j N] [--output bench/results/build_times.md]

Every figure is the wall time of the whole `gpubuild build` process, median of ROUNDS, in a copy of
the repository with caches of its own. The peer of a cold build is the same build with one worker:
upstream's `gpu-module-to-binary` is a serial loop. Absolute times depend on the machine; ratios
travel better.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EDITED = Path("examples/saxpy/saxpy.mlir")


def build(project: Path, *arguments: str) -> tuple[float, Counter[str]]:
    """Seconds of one build, and how many steps ended in which way."""
    command = [sys.executable, "-m", "gpubuild", "build", "--json", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"build failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds, Counter(step["status"] for step in json.loads(done.stdout)["steps"])


def edit_kernel(project: Path, round_number: int) -> None:
    """Change what one kernel computes, differently each round: append a constant-only store."""
    path = project / EDITED
    text = (ROOT / EDITED).read_text()
    marker = "gpu.return"
    assert marker in text, f"{EDITED} has no {marker}"
    path.write_text(
        text.replace(
            marker,
            f"%bench = arith.constant {round_number} : i32\n"
            f'      gpu.printf "%d\\n", %bench : i32\n      {marker}',
            1,
        )
    )


def bare_python() -> float:
    """Seconds of a Python that does nothing: the floor of every figure here."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - start


def measure(rounds: int, jobs: int) -> dict[str, tuple[list[float], Counter[str]]]:
    """Interleave the scenarios, so that a noisy moment does not favour one of them."""
    found: dict[str, tuple[list[float], Counter[str]]] = {}

    def note(name: str, result: tuple[float, Counter[str]]) -> None:
        found.setdefault(name, ([], result[1]))[0].append(result[0])

    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        ignore = shutil.ignore_patterns("build", ".git", ".venv", "*.egg-info", "blobs", "index")
        shutil.copytree(ROOT / "examples", project / "examples", ignore=ignore)
        shutil.copy(ROOT / "targets.yaml", project)
        for number in range(rounds):
            for name, workers in ((f"cold, -j{jobs}", jobs), ("cold, -j1", 1)):
                shutil.rmtree(project / "build", ignore_errors=True)
                cache = Path(scratch) / "cache"
                shutil.rmtree(cache, ignore_errors=True)
                note(name, build(project, "-j", str(workers), "--cache-dir", str(cache)))
            note("null", build(project, "--cache-dir", str(cache)))
            edit_kernel(project, number)
            note("one kernel edited", build(project, "--cache-dir", str(cache)))
            shutil.copy(ROOT / EDITED, project / EDITED)
            build(project, "--cache-dir", str(cache))
            shutil.rmtree(project / "build")
            note("clean checkout, warm cache", build(project, "--cache-dir", str(cache)))
            note("bare python", (bare_python(), Counter()))
    return found


def table(found: dict[str, tuple[list[float], Counter[str]]], cold: str) -> str:
    """Markdown: median, range, ratio to the cold build, what the steps did."""
    base = statistics.median(found[cold][0])
    lines = [
        "| build of all examples | median s | min-max s | / cold | steps |",
        "|---|---:|---:|---:|---|",
    ]
    for name, (seconds, steps) in found.items():
        median = statistics.median(seconds)
        did = ", ".join(f"{count} {status}" for status, count in sorted(steps.items())) or "-"
        lines.append(
            f"| {name} | {median:.3f} | {min(seconds):.3f}-{max(seconds):.3f} | {median / base:.3f} | {did} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-j", "--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/build_times.md")
    arguments = parser.parse_args()
    found = measure(arguments.rounds, arguments.jobs)
    text = table(found, f"cold, -j{arguments.jobs}")
    print(text)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        f"# bench/build_times.py\n\n{len(os.sched_getaffinity(0))} CPUs, Python {platform.python_version()}, "
        f"{platform.machine()}, {arguments.rounds} rounds.\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
