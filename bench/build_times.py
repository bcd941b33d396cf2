"""Time cold, null and one-kernel-edit builds of the repository's examples, and write a table.

Usage: python bench/build_times.py [--rounds 5] [-j N] [--output bench/results/build_times.md]

Every figure of the examples is the wall time of whole processes, median of ROUNDS, in a copy of the
repository with caches of its own. The peer of a cold build and of edits is ninja with upstream's `mlir-opt`
and clang on a generated project for three chips (`upstream.py`), which makes no runtime library; and one
`mlir-opt` for large kernels. The archive of the runtime library that wheels contain is made first. CPU is
user and system time of all processes. Memory is the largest sum of PSS, sampled in a round of its own.
Absolute times depend on the machine; ratios travel better.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from generate import generate, large_kernel
from timing import ROOT, bare_python, gpubuild_command, machine
from upstream import CHIPS, PeakMemory, Upstream, compare, tools

SETTLE_SECONDS = 2.1  # as after a user's edit, the times of all files are older than a tick
LARGE = (1000, 4000, 20_000)  # operations of one kernel
FILES, MODULES = 16, 2  # of the generated project
EDITED = Path("examples/saxpy/saxpy.mlir")
KERNEL_EDIT = "one kernel edited"
# Edits of a generated source: what they change, and the edit.
EDITS: dict[str, Callable[[str], str]] = {
    KERNEL_EDIT: lambda text: text.replace("constant 0.5 :", "constant 8.25 :"),
    "a comment edited": lambda text: f"// edited\n{text}",
}


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


@dataclass(slots=True)
class Cost:
    """Wall and CPU seconds of whole processes with all their descendants."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: float = 0.0  # MB

    def run(self, command: Sequence[str | Path], folder: Path, *, memory: bool = False) -> None:
        """Run a process; with ``memory`` only its peak counts, since watching it costs time."""
        os.sync()
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        watch = PeakMemory(process.pid)
        if memory:
            watch.start()
        errors = process.communicate()[1]
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        watch.over = True
        if process.returncode:
            sys.exit(f"{command}: exit code {process.returncode}\n{errors[-2000:].decode()}")
        if memory:
            self.peak = watch.peak
            return
        self.wall.append(wall)
        self.cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    def text(self, peer: Cost) -> str:
        """Return cells of a table: medians, and their ratio to those of ``peer``."""
        wall, cpu = statistics.median(self.wall), statistics.median(self.cpu)
        ratios = wall / statistics.median(peer.wall), cpu / statistics.median(peer.cpu)
        return f"{wall:.2f} | {cpu:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f}"


def edit(source: Path, what: str) -> None:
    """Make one of the edits in a generated source."""
    source.write_text(EDITS[what](source.read_text()))


def time_watched_edit(cost: Cost, command: Sequence[str | Path], folder: Path) -> None:
    """Time from the edit of a kernel to the end of the build that a running `gpubuild watch` makes.

    CPU time is that of the build and of the process that has loaded the compilers before.
    """
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "watching for changes" in line:
            break
    time.sleep(SETTLE_SECONDS)
    before, start = _cpu_seconds(process.pid), time.perf_counter()
    edit(folder / "file0.mlir", KERNEL_EDIT)
    for line in process.stderr:
        if " steps: " in line:
            break
    cost.wall.append(time.perf_counter() - start)
    cost.cpu.append(_cpu_seconds(process.pid) - before)
    process.send_signal(signal.SIGINT)
    process.communicate()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its descendants that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def race_upstream(rounds: int, jobs: int, mlir: Path | None) -> list[str]:
    """Compare with the peer of `upstream.py` in turns: a cold build, then single large kernels."""
    programs, missing = tools(mlir)
    if missing:
        return missing
    head = ["wall s", "CPU s", "/ peer wall", "/ peer CPU"]
    lines = [f"| | {' | '.join(head)} | peak PSS MB |", "|---|" + "---:|" * 5]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name).resolve()
        upstream = Upstream(programs, scratch / "toolkit")
        if lacking := [v for v in CHIPS if not upstream.supports(v, scratch)]:
            return [f"{programs['mlir-opt']} has no code generator for {', '.join(lacking)}: left out"]
        chips = [chip for vendor in CHIPS.values() for chip in vendor]
        costs = {what: (Cost(), Cost()) for what in ("cold", *EDITS)}
        watched = Cost()
        for number in range(rounds + 1):
            folders = scratch / f"peer{number}", scratch / f"own{number}", scratch / f"watched{number}"
            for folder in folders:
                generate(folder, files=FILES, modules=MODULES, targets=4)
            upstream.write_ninja(folders[0], FILES)
            asked = [f"-j{jobs}", *(f"-t{chip}" for chip in chips), "--cache-dir"]
            build = [*gpubuild_command(), "build", *asked, str(scratch / f"c{number}")]
            watch = [*gpubuild_command(), "watch", *asked, str(scratch / f"w{number}")]
            commands = [programs["ninja"], f"-j{jobs}"], build
            time_watched_edit(watched, watch, folders[2])
            for what, pair in costs.items():
                if what in EDITS:
                    time.sleep(SETTLE_SECONDS)
                for cost, command, folder in zip(pair, commands, folders[:2], strict=True):
                    if what in EDITS:
                        edit(folder / "file0.mlir", what)
                    cost.run(command, folder, memory=number == rounds)
        count, equal = compare(folders[0], folders[1] / "build/app")
        assert count == FILES * MODULES * len(chips), count
        for what, pair in costs.items():
            for who, cost in zip(("ninja, mlir-opt, clang", "gpubuild"), pair, strict=True):
                lines.append(f"| {what}: {who} | {cost.text(pair[0])} | {cost.peak:.0f} |")
            if what == KERNEL_EDIT:
                lines.append(f"| {what}: gpubuild watch | {watched.text(pair[0])} | - |")
        for operations in LARGE:
            (scratch / "large.mlir").write_text(large_kernel(operations))
            for vendor, (*_, chip) in CHIPS.items():
                pair = Cost(), Cost()
                command = upstream.compile_command("large.mlir", vendor, (chip,))
                for _ in range(rounds):
                    pair[0].run(command, scratch)
                    pair[1].run(
                        [*gpubuild_command(), "compile", "large.mlir", "-t", chip, "--emit", "obj"], scratch
                    )
                for what, cost in zip(("mlir-opt", "gpubuild"), pair, strict=True):
                    lines.append(f"| {operations:,} operations, {chip}: {what} | {cost.text(pair[0])} | - |")
    lines += ["", f"Images of both: {count}, of the same sections; {equal} have the same bytes."]
    return lines


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
    parser.add_argument("--mlir", type=Path, metavar="DIR", help="folder of mlir-opt and mlir-translate")
    parser.add_argument("--only-peer", action="store_true", help="leave out the examples")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/build_times.md")
    arguments = parser.parse_args()
    subprocess.run([sys.executable, "-m", "gpubuild.toolchain.runtime_library"], check=True, cwd=ROOT)
    text = ""
    if not arguments.only_peer:
        found = measure(arguments.rounds, arguments.jobs)
        text = table("all examples", found, f"cold, -j{arguments.jobs}")
    race = "\n".join(race_upstream(arguments.rounds, arguments.jobs, arguments.mlir))
    text += f"\n\n{FILES} files with {MODULES} modules each, for sm_60, sm_90 and gfx90a:\n\n{race}"
    print(text)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(
        f"# bench/build_times.py\n\n{machine()}; {arguments.rounds} rounds.\n\n{text}\n"
    )


if __name__ == "__main__":
    main()
