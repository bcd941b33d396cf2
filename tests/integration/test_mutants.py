"""Each program, changed as its BREAK lines say, prints something else: FileCheck can fail."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from e2e.command import execute, gpubuild
from integration.mutants import Mutant, all_of, main_c, own_names, together
from integration.program import FOLDER, Program, programs
from unit.engine.device_steps import in_child

from gpubuild.config.load import load_project

PROGRAMS = programs()
PROJECT = load_project(FOLDER / "targets.yaml")
MUTANTS = all_of(PROGRAMS.values())
# What is not changed must be right here, too: else a mutant might be noticed for another reason.
SAME = [Mutant(program=p) for n, p in enumerate(PROGRAMS.values()) if n % 10 == 0 or p.traced]


def passes(mutant: Mutant) -> str:
    """Those of the program's own, which run on whole sources."""
    return PROJECT.programs[mutant.program.name].passes.source


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[Mutant, list[str]]:
    """How each is run; those with the same passes are one executable."""
    folder = tmp_path_factory.mktemp("mutants")
    groups: dict[str, list[Mutant]] = {}
    for mutant in (*MUTANTS, *SAME):
        groups.setdefault(passes(mutant), []).append(mutant)
    described, found = {}, {}
    for place, (pipeline, mutants) in enumerate(groups.items()):
        name = f"mutants_{place}"
        (folder / f"{name}.mlir").write_text(in_child(together, mutants))
        (folder / f"{name}.c").write_text(main_c(len(mutants)))
        described[name] = {"sources": [f"{name}.mlir", f"{name}.c"]}
        if pipeline:
            described[name]["passes"] = {"source": pipeline}
        for number, mutant in enumerate(mutants):
            found[mutant] = [str(folder / "build" / name / name), str(number)]
    project = {
        "version": 1,
        "defaults": {"opt_level": 0},
        "targets": {"cpu": {}},
        "programs": described,
    }
    (folder / "targets.yaml").write_text(json.dumps(project))  # JSON is YAML
    outcome = gpubuild("build", "-q", cwd=folder, seeded=True)
    assert outcome.code == 0, outcome.err
    return found


def refusal(mutant: Mutant, command: list[str], scratch: Path) -> str:
    """One thread runs the work-items in their order, so that a mutant prints the same every time."""
    environment = {
        **os.environ,
        "GPUBUILD_DEVICE": "cpu",
        "GPUBUILD_CPU_THREADS": "1",
        "GPUBUILD_TRACE": "1" if mutant.program.traced else "0",
    }
    done = execute(*command, env=environment, code=None)
    return mutant.program.refusal(done.out, own_names(done.err, int(command[1])), scratch)


def test_every_program_has_a_change() -> None:
    assert [p.name for p in PROGRAMS.values() if not p.breaks] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.program.name} {m.change}")
def test_a_change_is_noticed(commands: dict[Mutant, list[str]], tmp_path: Path, mutant: Mutant) -> None:
    assert refusal(mutant, commands[mutant], tmp_path) != ""


@pytest.mark.parametrize("mutant", SAME, ids=lambda m: m.program.name)
def test_without_a_change_it_is_right(
    commands: dict[Mutant, list[str]], tmp_path: Path, mutant: Mutant
) -> None:
    assert refusal(mutant, commands[mutant], tmp_path) == ""


@pytest.mark.parametrize("change", ["s/gpu.barrier", "s/no such text//", "barrier"])
def test_a_change_that_changes_nothing_is_refused(change: str) -> None:
    program = Program(name="p", text="// BREAK: s/no such text//\ngpu.barrier\n")
    with pytest.raises(ValueError, match="chang"):
        program.broken(change)
