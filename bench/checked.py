"""Checked CPU kernels against plain ones: CPU time (user and system) and wall time of one launch, in turns.

    python bench/checked.py [--only TEXT] [--rounds 3] [-o FILE]

The kernels and problems are those of bench/cpu_kernels.py, of which the largest are left out: checking
matmul 1024³ for races takes minutes. Every result is verified, and no check may find anything: the
process would end with exit code 66. Ratios are of CPU time, since other programs may run beside; the
least wall time of each is in a second table. Goals: bounds 5 times, races 30 times. Writes
bench/results/checked.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cpu_problems import PROBLEMS, Arrays, Problem, check
from timing import ROOT, machine

sys.path.insert(0, str(ROOT / "tests"))
HERE = Path(__file__).parent
TOO_LARGE = "1024³"
GOALS = {"bounds": 5, "race": 30}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="problems whose title has this in it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "checked.md")
    options = parser.parse_args(arguments)
    os.environ["GPUBUILD_CPU_THREADS"] = "1"
    from e2e.cpu_harness import Device, build_runtime, compile_module

    from gpubuild.targets.target import Sanitize

    variants: dict[str, tuple[Sanitize, ...]] = {
        "plain": (),
        "bounds": (Sanitize.BOUNDS,),
        "uninitialized": (Sanitize.UNINITIALIZED,),
        "barrier": (Sanitize.BARRIER,),
        "race": (Sanitize.RACE,),
        "all": tuple(Sanitize),
    }
    head = f"| problem | tier | plain, ms | {' | '.join(list(variants)[1:])} |"
    rule = "|---|---|---:|" + "---:|" * (len(variants) - 1)
    lines = [
        "# bench/checked.py",
        "",
        f"{machine()}; one thread, best of {options.rounds} rounds in turns; milliseconds of CPU time",
        "(user and system) without checks, and how many times as long a launch takes with them.",
        "",
        head,
        rule,
    ]
    walls = ["", "The same in wall time, which other programs on the machine prolong:", "", head, rule]
    missed = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        device = Device(build_runtime(folder))
        text = (HERE / "kernels" / "kernels.mlir").read_text()
        modules = {
            name: device.load(compile_module(text, folder / name, sanitize=checks))
            for name, checks in variants.items()
        }
        for problem in PROBLEMS:
            if options.only not in problem.title or TOO_LARGE in problem.title:
                continue
            best = dict.fromkeys(variants, float("inf"))
            wall = dict.fromkeys(variants, float("inf"))
            arrays = problem.arrays()
            for _ in range(options.rounds):
                for name, module in modules.items():
                    used, passed = _seconds(problem, arrays, module)
                    best[name], wall[name] = min(best[name], used), min(wall[name], passed)
                    check(problem, arrays)
            tier = modules["plain"].tier(problem.kernel)
            lines.append(_row(problem.title, tier, best))
            walls.append(_row(problem.title, tier, wall))
            missed += [
                f"{problem.title}: {name} {best[name] / best['plain']:.1f} times, the goal is {most}"
                for name, most in GOALS.items()
                if best[name] > most * best["plain"]
            ]
            print(lines[-1], flush=True)
    lines += walls
    lines += ["", *(missed or ["All goals are met: bounds at most 5 times, races at most 30 times."])]
    print(*lines[-max(1, len(missed)) :], sep="\n")
    options.output.write_text("\n".join(lines) + "\n")


def _row(title: str, tier: str, best: dict[str, float]) -> str:
    plain = best["plain"]
    ratios = " | ".join(f"{seconds / plain:.1f}" for name, seconds in best.items() if name != "plain")
    return f"| {title} | {tier} | {plain * 1e3:.1f} | {ratios} |"


def _seconds(problem: Problem, arrays: Arrays, module: object) -> tuple[float, float]:
    """CPU time and wall time of one launch."""
    arrays[-1][...] = 0
    used, passed = time.process_time(), time.perf_counter()
    module.launch(problem.kernel, problem.grid, problem.block, *arrays)  # type: ignore[attr-defined]
    return time.process_time() - used, time.perf_counter() - passed


if __name__ == "__main__":
    main()
