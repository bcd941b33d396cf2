"""Whole programs for a device elsewhere: examples, and one for each operation, judged by what they print."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devices.at_hand import CPU, CUDA, HIP
from devices.pack import Pack
from e2e.built_examples import built_examples
from e2e.command import ROOT, gpubuild
from integration import program as operations

from gpubuild.config.load import load_project

TARGETS = {CUDA: ("sm_60", "sm_90"), HIP: ("gfx90a", "gfx942"), CPU: ("cpu",)}
_EXAMPLES = ROOT / "targets.yaml"
_OPERATIONS = operations.FOLDER / "targets.yaml"
Judge = Callable[[dict[str, Any]], str]  # what a program did (code, out, err) -> what is wrong, or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A program of a project; ``traced`` ones also write which calls of the runtime there are."""

    name: str
    project: Path
    judge: Judge
    traced: bool = False


def whole_programs(kind: str) -> Iterator[Whole]:
    """All that can run on devices of ``kind``."""
    for project, judge_of in ((_EXAMPLES, _example), (_OPERATIONS, _operation)):
        for name, program in load_project(project).programs.items():
            # One module of two_modules is not compiled for AMD devices.
            if set(TARGETS[kind]) & set(program.targets) and (kind, name) != (HIP, "two_modules"):
                yield judge_of(name)


def _example(name: str) -> Whole:
    expected = (ROOT / "examples" / name / "expected.txt").read_text()

    def judge(did: dict[str, Any]) -> str:
        right = (did["code"], did["out"], did["err"]) == (0, expected, "")
        return "" if right else f"code {did['code']}: {did['err'] or did['out']}"

    return Whole(name=name, project=_EXAMPLES, judge=judge)


def _operation(name: str) -> Whole:
    program = operations.programs()[name]

    def judge(did: dict[str, Any]) -> str:
        if did["code"] or (did["err"] and not program.traced):
            return f"code {did['code']}: {did['err']}"
        with tempfile.TemporaryDirectory() as scratch:
            return program.refusal(did["out"], did["err"], Path(scratch))

    return Whole(name=name, project=_OPERATIONS, judge=judge, traced=program.traced)


def add_programs(pack: Pack, kind: str, wholes: Iterable[Whole], scratch: Path) -> None:
    """Build the programs, and put their executables into ``pack``."""
    operations = [whole.name for whole in wholes if whole.project == _OPERATIONS]
    if operations:
        chosen = [word for target in TARGETS[kind] for word in ("-t", target)]
        places = ("--build-dir", scratch / "build", "--cache-dir", scratch / "cache")
        outcome = gpubuild("build", "-q", "-f", _OPERATIONS, *places, *chosen, *operations, cwd=scratch)
        assert outcome.code == 0, outcome.err
    for whole in wholes:
        build = scratch if whole.project == _OPERATIONS else built_examples()
        pack.add_program(whole.name, build / "build" / whole.name / whole.name, traced=whole.traced)
