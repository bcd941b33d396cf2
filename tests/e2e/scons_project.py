"""The project that tests of SCons build, and what they do with it."""

from __future__ import annotations

import shutil
from pathlib import Path

from e2e.command import Outcome, gpubuild, run_module, seed
from once import once

SCONSTRUCT = """\
env = Environment(tools=["default", "gpubuild"])
program = env.GpuProgram("scale", "targets.yaml")
env.Alias("scale", program)
"""
OK = "scale: OK (0 of 1000 elements wrong)\n"


def scons(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    return run_module("SCons", "-Q", *arguments, cwd=cwd, env=env)


def done(outcome: Outcome) -> set[str]:
    """What SCons ran; the build must have worked."""
    assert outcome.code == 0, outcome.out + outcome.err
    return {
        line.removeprefix("gpubuild: ") for line in outcome.out.splitlines() if line.startswith("gpubuild: ")
    }


def the_project() -> Path:
    """Built with SCons once in a run of the tests, for all; nobody may write to it."""
    return once("scons-project", _build) / "demo"


def copy_of_the_project(folder: Path) -> Path:
    """A copy of one's own at another path, with everything SCons and the build know of it."""
    return Path(shutil.copytree(the_project(), folder / "demo", symlinks=True))


def _build(folder: Path) -> None:
    gpubuild("init", "demo", cwd=folder, code=0)
    project = folder / "demo"
    (project / "SConstruct").write_text(SCONSTRUCT)
    seed(project)
    outcome = scons("-j2", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    assert "up to date" in scons(cwd=project).out
