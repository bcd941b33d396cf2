"""What compiling a kernel for the CPU costs: work-item fission against LLVM's optimiser and code generator.

    python bench/cpu_pass.py [--rounds 5] [-o FILE]

Each kernel of bench/cpu_kernels.py is a module of its own, compiled in this process as in a build's worker.
CPU time of the process, the shortest of the rounds: other programs can only add to it. Fission are its passes
with what they take to decide; MLIR's own passes around it are not counted. Writes
bench/results/cpu_pass.md.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from report import Goal, goal_table
from timing import ROOT, machine

sys.path.insert(0, str(ROOT / "tests"))
HERE = Path(__file__).parent
LEVELS = (3, 2)


def kernels() -> dict[str, str]:
    """Each kernel of the benchmark as a module, by name."""
    text = (HERE / "kernels" / "kernels.mlir").read_text()
    parts = re.split(r"(?m)^  (?=gpu\.func )", text[: text.rindex("}")])
    head, functions = parts[0], parts[1:]
    return {re.findall(r"@(\w+)", f)[0]: f"{head}{f}}}\n" for f in functions}


class Clock:
    """CPU seconds spent in functions of ``owner`` while they are watched."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def watch(self, owner: Any, *names: str) -> None:
        """Replace functions of the owner by functions that count."""
        for name in names:
            setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.process_time() - start

        return run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "results" / "cpu_pass.md")
    options = parser.parse_args(arguments)
    from e2e.cpu_harness import compile_module

    from gpubuild.engine.backends.cpu import compile as cpu
    from gpubuild.engine.backends.cpu.passes import FISSION
    from gpubuild.engine.ir import llvm

    passes, code = Clock(), Clock()
    cpu.PASSES = tuple(
        replace(one, run=passes.counted(one.run)) if one in FISSION else one for one in cpu.PASSES
    )
    code.watch(llvm, "optimize", "emit_both")
    lines = [
        "# bench/cpu_pass.py",
        "",
        f"{machine()}; chip native, CPU time in milliseconds, the shortest of {options.rounds} rounds.",
        "",
        "| kernel | tier | opt_level | fission | LLVM | fission / LLVM |",
        "|---|---|---:|---:|---:|---:|",
    ]
    goals: list[Goal] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in kernels().items():
            for level in LEVELS:
                fission = compiled = float("inf")
                for number in range(options.rounds + 1):
                    passes.seconds = code.seconds = 0.0
                    folder = Path(scratch) / f"{name}.{level}.{number}"
                    out = compile_module(text, folder, chip="native", opt_level=level)
                    if number:  # the first one loads what all need
                        fission, compiled = min(fission, passes.seconds), min(compiled, code.seconds)
                tier = re.findall(r'"tier": "(\w+)"', (out / "info").read_text())[0]
                times = f"{1000 * fission:.2f} | {1000 * compiled:.0f} | {fission / compiled:.3f}"
                lines.append(f"| {name} | {tier} | {level} | {times} |")
                print(lines[-1], flush=True)
                goals.append(Goal(f"{name}, opt_level {level}: fission / LLVM", fission / compiled, 1.0, "x"))
    options.output.write_text("\n".join([*lines, "", goal_table(goals)]))


if __name__ == "__main__":
    main()
