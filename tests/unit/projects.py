"""Projects, and reports of their builds, made by hand, for tests that need no YAML."""

from pathlib import Path

from gpubuild.model.project import CacheConfig, Program, Project
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import Input, Output, RuntimeParams, Step, StepKind
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.target import Target

TARGETS = {
    "sm_60": Target(name="sm_60", kind="nvvm", chip="sm_60", triple=NVVM_TRIPLE),
    "sm_90": Target(name="sm_90", kind="nvvm", chip="sm_90", triple=NVVM_TRIPLE),
    "gfx90a": Target(name="gfx90a", kind="rocdl", chip="gfx90a", triple=ROCDL_TRIPLE),
    "cpu": Target(name="cpu", kind="cpu", chip="x86-64-v3", triple="x86_64-unknown-linux-gnu"),
}


def make_project(root: Path, *programs: Program, targets: dict[str, Target] | None = None) -> Project:
    """A project in ``root`` with ``programs`` and, unless given, four targets."""
    return Project(
        root=root,
        file=root / "targets.yaml",
        targets=targets or TARGETS,
        programs={p.name: p for p in programs},
        cache=CacheConfig(directory=root / "cache"),
    )


def make_program(root: Path, name: str, *sources: str, **options: object) -> Program:
    """A program of ``sources`` (relative to ``root``), for all targets unless told otherwise."""
    options.setdefault("targets", tuple(TARGETS))
    return Program(name=name, sources=tuple(root / s for s in sources), **options)


def make_step(name: str, *needs: str, writes: str = "", **fields: object) -> Step:
    """A step that reads what the steps ``needs`` write, and writes one file."""
    usual = {
        "kind": StepKind.RUNTIME,
        "params": RuntimeParams(),
        "inputs": tuple(Input(name=f"in.{need}", path=Path(need), producer=need) for need in needs),
        "outputs": (Output(name="out", path=Path(writes or f"{name}.out")),),
    }
    return Step(id=name, **usual | fields)


def step_report(name: str, status: Status = Status.RAN, **fields: object) -> StepReport:
    """How a step ended: one that compiles C and belongs to no program, unless ``fields`` say otherwise."""
    none = {"kind": StepKind.CC, "program": "", "module": "", "target": ""}
    return StepReport(id=name, status=status, **none | fields)


def build_report(*steps: StepReport, seconds: float = 0.0) -> BuildReport:
    """The report of a build that has linked nothing."""
    return BuildReport(steps=steps, executables={}, seconds=seconds)
