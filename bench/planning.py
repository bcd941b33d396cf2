"""Time planning, from targets.yaml to the graph of all steps, and the memory it takes.

Usage: python bench/planning.py [--files 833] [--modules 2] [--targets 4]

Prints one line of JSON. Sources are taken to have been read already, which is the work of `outline`
steps: everything from there to the finished graph is measured, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from pathlib import Path

from generate import generate, kernel_number
from timing import peak_mb

from gpubuild.build.builder import runtime_sources
from gpubuild.config.load import load_project
from gpubuild.model.step import StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedModule, ScannedSource
from gpubuild.targets.target import cpu_triple


def scans_of(planner: Planner, modules: int) -> dict[str, ScannedSource]:
    """What outline steps would have found in a generated project."""
    steps = planner.scan_plan(planner.choose_programs(())).steps.values()
    outlines = [s for s in steps if s.kind is StepKind.OUTLINE]
    return {
        step.id: ScannedSource(
            modules=tuple(
                ScannedModule(name=f"m{kernel_number(file, m, modules)}", index=m) for m in range(modules)
            )
        )
        for file, step in enumerate(outlines)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=833)
    parser.add_argument("--modules", type=int, default=2)
    parser.add_argument("--targets", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        generate(folder, files=options.files, modules=options.modules, targets=options.targets)
        start = time.perf_counter()
        project = load_project(folder / "targets.yaml")
        loaded = time.perf_counter()
        planner = Planner(
            project=project,
            layout=Layout(root=project.root, build_dir=folder / "build"),
            triple=cpu_triple(platform.machine()),
            runtime_sources=runtime_sources(),
        )
        scans = scans_of(planner, options.modules)  # includes the first phase's plan
        plan = planner.full_plan(planner.choose_programs(()), scans)
        end = time.perf_counter()
    edges = sum(len(plan.needs(step)) for step in plan.steps)
    result = {
        "steps": len(plan.steps),
        "edges": edges,
        "load_seconds": loaded - start,
        "seconds": end - start,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
