"""CPU kernels: gpubuild's against C by gcc and clang, PoCL and our SPIR-V, all in one run and in turns.

    python bench/cpu_kernels.py [--rounds 15] [--quick] [--only TEXT] [--peers FOLDER] [-o FILE]

Every result is verified. Writes bench/results/cpu_kernels.md: medians in milliseconds, and ratios.
PoCL is Debian's pocl-opencl-icd; pyopencl comes from bench/requirements.txt, in the environment that
``--peers`` names (default build/bench-venv), made with the Python that runs this. Our SPIR-V runs on Intel's
OpenCL runtime (PyPI: intel-opencl-rt), in this Python's environment or the one that GPUBUILD_TEST_OPENCL
names. What is not there is left out, and the result says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpu_goals import goal_lines
from cpu_launch import launch_lines
from cpu_problems import PROBLEMS, Problem
from cpu_threads import Turn, take_turn, thread_lines
from cpu_worker import SPIRV
from scaling import scaling_lines
from timing import ROOT, machine

sys.path.insert(0, str(ROOT / "tests"))
HERE = Path(__file__).parent
KERNELS = HERE / "kernels"
THREADS = (1, 2)
CLANG = [sys.executable, "-m", "ziglang", "cc"]


@dataclass(slots=True)
class Contender:
    """A process of cpu_worker.py."""

    label: str
    process: subprocess.Popen[str]

    @classmethod
    def start(
        cls, folder: Path, packages: Path | str, label: str, threads: int, *, only_ours: bool = False
    ) -> Contender | None:
        """``packages`` is where PoCL is, if it is there; ``only_ours`` leaves C out, too."""
        from devices import at_hand

        names = ("GPUBUILD_CPU_THREADS", "POCL_MAX_PTHREAD_COUNT", "DPCPP_CPU_NUM_CUS")
        intel = {**(at_hand.opencl() or {}), "GPUBUILD_DEVICE": "opencl"}
        process = subprocess.Popen(
            [sys.executable, HERE / "cpu_worker.py", *(["--only-ours"] if only_ours else []), folder]
            + ([packages] if packages else []),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | intel | dict.fromkeys(names, str(threads)),
        )
        made = cls(label, process)
        return made if made._answer() == "ready" else None

    def ask(self, command: str) -> Any:
        """Ends the benchmark when the contender does, with its message."""
        self.tell(command)
        return self.answer(command)

    def tell(self, command: str) -> None:
        """Like :meth:`ask`, without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self, command: str) -> Any:
        """The answer to ``command``, which was told."""
        answer = self._answer()
        if self.process.poll() is not None:
            sys.exit(f"{self.label}: `{command}` ended with exit code {self.process.returncode}")
        return answer

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            return None
        return json.loads(line)

    def name(self, variant: str) -> str:
        return f"{variant}{self.label}"


def compile_c(folder: Path) -> list[str]:
    """Build kernels.c with every compiler there is; what they are."""
    options = {"": [], "-fast": ["-ffast-math"]}
    found = []
    for name, command in {"gcc": ["gcc"], "clang": CLANG}.items():
        version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
        if shutil.which(command[0]) is None or version.returncode:
            continue
        found.append(version.stdout.splitlines()[0])
        for suffix, extra in options.items():
            output = folder / f"libc_{name}{suffix}.so"
            flags = ["-std=c11", "-O3", "-march=native", "-shared", "-fPIC", *extra]
            subprocess.run([*command, *flags, KERNELS / "kernels.c", "-o", output, "-lm"], check=True)
    return found


def compile_spirv(folder: Path) -> None:
    """Write our SPIR-V image, which the contenders take where it is."""
    from unit.engine.device_steps import compile_module
    from unit.runtime.programs import container

    chip = "spirv1.3"
    text = (KERNELS / "kernels.mlir").read_text().replace("@bench", "@k")
    (folder / SPIRV).write_bytes(container((chip, compile_module(text, chip).object)))


def contenders(folder: Path, peers: Path) -> list[Contender]:
    """A process for each number of threads, with ours, C and, where it is there, PoCL."""
    packages = next(
        iter(peers.glob(f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages")), ""
    )
    started = [
        Contender.start(folder, packages, "" if threads == 1 else f", {threads} threads", threads)
        for threads in THREADS
    ]
    return [c for c in started if c is not None]


def measure(
    problem: Problem, fleet: Sequence[Contender], twin: Contender, rounds: int
) -> tuple[dict[str, list[float]], list[Turn]]:
    """Seconds of each contender's variants, which take turns in each round; and what two threads did."""
    number = PROBLEMS.index(problem)
    variants = [(c, v) for c in fleet for v in c.ask(f"open {number}")]
    found: dict[str, list[float]] = {c.name(v): [] for c, v in variants}
    twin.ask(f"open {number}")
    turns = []
    for _ in range(rounds):
        for contender, variant in variants:
            found[contender.name(variant)].append(contender.ask(f"run {variant}"))
        turns.append(take_turn(fleet[0], twin, fleet[1], statistics.median(found["ours"])))
    for contender in (*fleet, twin):
        contender.ask("close")
    return found, turns


def table(found: Mapping[str, Mapping[str, list[float]]]) -> list[str]:
    """One row per problem, one column per contender: medians in milliseconds."""
    columns = list(dict.fromkeys(name for times in found.values() for name in times))
    lines = [f"| ms | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for title, times in found.items():
        cells = [f"{1000 * statistics.median(times[c]):.2f}" if c in times else "-" for c in columns]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--quick", action="store_true", help="three rounds")
    options.add_argument("--only", default="", help="problems with this in their title")
    options.add_argument("--peers", type=Path, default=ROOT / "build" / "bench-venv")
    options.add_argument("-o", "--output", type=Path, default=HERE / "results" / "cpu_kernels.md")
    chosen = options.parse_args()
    from devices import at_hand
    from e2e.cpu_harness import build_runtime, compile_module

    rounds = 3 if chosen.quick else chosen.rounds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_runtime(folder)
        compile_module((KERNELS / "kernels.mlir").read_text(), folder / "k", chip="native")
        tiers = {k["name"]: k["tier"] for k in json.loads((folder / "k/job/out/info").read_text())["kernels"]}
        compilers = compile_c(folder)
        if at_hand.opencl() is not None:
            compile_spirv(folder)
        fleet = contenders(folder, chosen.peers)
        twin = Contender.start(folder, "", "", 1, only_ours=True)
        assert twin is not None
        found: dict[str, dict[str, list[float]]] = {}
        turns: dict[str, list[Turn]] = {}
        for problem in PROBLEMS:
            if chosen.only in problem.title:
                found[problem.title], turns[problem.title] = measure(problem, fleet, twin, rounds)
                print(table({problem.title: found[problem.title]})[-1], flush=True)
        for contender in (*fleet, twin):
            contender.process.terminate()
        launches = launch_lines(folder, rounds)
        scaling = scaling_lines(folder, rounds)
    columns = {column for times in found.values() for column in times}
    absent = [peer for peer in ("PoCL", "SPIR-V") if peer not in columns]
    peers = f" {' and '.join(absent)}: not there." if absent else ""
    text = "\n".join(
        [
            "# bench/cpu_kernels.py",
            "",
            f"{machine()}; {'; '.join(compilers)}.{peers} Medians of {rounds} rounds in which all take "
            "turns, all of one number of threads on the same arrays; results verified. `plain` is C without "
            "a GPU in mind, on two threads where each takes half of the arrays; `items` has work-items as "
            "inner loops; all of it -O3 -march=native, `fast` with -ffast-math. `SPIR-V` is gpubuild's code, "
            "compiled by Intel's OpenCL runtime.",
            "",
            *table(found),
            "",
            "Tiers: " + ", ".join(f"{k} {t}" for k, t in tiers.items()) + ".",
            "",
            *goal_lines(found, turns),
            "",
            *thread_lines(turns),
            "",
            *scaling,
            "",
            *launches,
            "",
        ]
    )
    print(text)
    if not chosen.only:
        chosen.output.write_text(text)


if __name__ == "__main__":
    main()
