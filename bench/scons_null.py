"""Time `scons` with nothing to do: the examples, beside an SConstruct of the same nodes and trivial actions.

Usage: python bench/scons_null.py [--rounds 7] [--folder DIR]

Builds the examples with SCons in a copy of the checkout, writes another SConstruct with a node for
each of their nodes, the same edges, and actions that copy the first source, builds that too, and
then times null builds of both in turns. Prints wall and CPU time, and the ratio.

The second column reads the same graph from a project that has no tools, cache or kernels, so what
is above 1 is what gpubuild itself costs under SCons.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from timing import ROOT

from gpubuild.build.opening import open_builder
from gpubuild.config.load import load_project
from gpubuild.model.project import BuildOptions
from gpubuild.model.step import Step, StepKind
from gpubuild.settings import Settings

OURS = """\
env = Environment(tools=["gpubuild"])
Default(list(env.GpuPrograms("targets.yaml").values()))
"""
TRIVIAL = """\
import json

def copy(target, source, env):
    data = open(str(source[0]), "rb").read()
    for node in target:
        with open(str(node), "wb") as stream:
            stream.write(data)

env = Environment(tools=[])
for step in json.load(open("steps.json")):
    made = env.Command(step["targets"], step["sources"], env.Action(copy, "copy"))
    env.Depends(made, step["headers"])
    env.Precious(made)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="work there and keep it (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        ours, trivial = folder / "examples", folder / "trivial"
        steps = prepare(ours, trivial)
        commands = {"gpubuild": ours, "trivial": trivial}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, place in commands.items():
                found[name].append(null_build(place))
    report(found, steps)


def prepare(ours: Path, trivial: Path) -> int:
    """Both projects, built; how many steps each has. Keeps what an earlier run left in the folder."""
    shutil.copytree(ROOT / "examples", ours / "examples", dirs_exist_ok=True)
    shutil.copy(ROOT / "targets.yaml", ours)
    (ours / "SConstruct").write_text(OURS)
    scons(ours)
    steps = graph(ours)
    for step in steps:
        for name in (*step["sources"], *step["targets"]):
            (trivial / name).parent.mkdir(parents=True, exist_ok=True)
    made = {name for step in steps for name in step["targets"]}
    for name in {name for step in steps for name in step["sources"]} - made:
        if not Path(name).is_absolute():
            shutil.copy(ours / name, trivial / name)
    (trivial / "steps.json").write_text(json.dumps(steps))
    (trivial / "SConstruct").write_text(TRIVIAL)
    scons(trivial)
    return len(steps)


def graph(folder: Path) -> list[dict[str, list[str]]]:
    """The nodes of each step as gpubuild's SCons tool makes them, relative to the project."""
    project = load_project(folder / "targets.yaml")
    with open_builder(project, Settings.from_environ(), BuildOptions(build_dir=folder / "build")) as builder:
        plan = builder.scan()

    def names(paths: Sequence[Path]) -> list[str]:
        return [str(p.relative_to(folder)) if p.is_relative_to(folder) else str(p) for p in paths]

    return [
        {
            "targets": names(outputs(plan.steps[step_id])),
            "sources": names([i.path for i in plan.steps[step_id].inputs if i.in_key]),
            "headers": headers(plan.steps[step_id]),
        }
        for step_id in plan.order()
    ]


def outputs(step: Step) -> list[Path]:
    """What a step writes; what the splitting of a source gave lies in a folder of its own."""
    return sorted(step.dynamic_dir.iterdir()) if step.dynamic_dir else [o.path for o in step.outputs]


def headers(step: Step) -> list[str]:
    """The system's headers that a C source reads."""
    if step.kind is not StepKind.PREPROCESS:
        return []
    read = json.loads(step.output_path("deps").read_text())
    return [name for name in read if isinstance(name, str) and Path(name).is_absolute()]


def scons(folder: Path, *arguments: str) -> str:
    """Run SCons as a user would. Ends the benchmark when it fails."""
    script = Path(sys.executable).with_name("scons")
    done = subprocess.run(
        [script, *arguments], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout


def environment() -> Mapping[str, str]:
    """The caller's, less what would change what SCons does or have Python compile itself each time."""
    dropped = {"SCONSFLAGS", "PYTHONDONTWRITEBYTECODE"}
    return {name: value for name, value in os.environ.items() if name not in dropped}


def null_build(folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds of a `scons` that has nothing to do; ends the benchmark if it did something."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    printed = scons(folder, "-Q")
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if "is up to date" not in printed:
        sys.exit(f"{folder}: this was no null build:\n{printed}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(found: Mapping[str, Sequence[tuple[float, float]]], steps: int) -> None:
    """Medians, and their ratios; wall time says little on a busy machine."""
    print(f"{steps} steps           wall       CPU")
    medians = {}
    for name, taken in found.items():
        wall, cpu = medians[name] = [statistics.median(each[n] for each in taken) * 1000 for n in (0, 1)]
        print(f"{name:12} {wall:7.0f} ms {cpu:7.0f} ms")
    ratios = [medians["gpubuild"][n] / medians["trivial"][n] for n in (0, 1)]
    print(f"{'ratio':12} {ratios[0]:7.2f}    {ratios[1]:7.2f}")


if __name__ == "__main__":
    main()
