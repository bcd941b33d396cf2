"""Executables for a device elsewhere: the examples, and one for each operation, judged by their output."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devices.at_hand import CPU, CUDA, HIP
from devices.pack import Pack
from e2e.built_examples import built_examples
from e2e.command import ROOT, gpubuild, seed
from integration import program as operations

from gpubuild.config.load import load_project

TARGETS = {CUDA: ("sm_60", "sm_90"), HIP: ("gfx90a", "gfx942"), CPU: ("cpu",)}
_EXAMPLES = ROOT / "targets.yaml"
_OPERATIONS = operations.FOLDER / "targets.yaml"
Judge = Callable[[dict[str, Any]], str]  # what a program did (code, out, err) -> what is wrong, or nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A program of a project; ``traced`` ones also write which calls of the runtime there are."""

    name: str
    project: Path
    judge: Judge
    traced: bool = False


def executables(kind: str) -> Iterator[Executable]:
    """All that can run on devices of ``kind``."""
    for project, judge_of in ((_EXAMPLES, _example), (_OPERATIONS, _operation)):
        for name, program in load_project(project).programs.items():
            # One module of two_modules is not compiled for AMD devices.
            if set(TARGETS[kind]) & set(program.targets) and (kind, name) != (HIP, "two_modules"):
                yield judge_of(name)


def _example(name: str) -> Executable:
    expected = (ROOT / "examples" / name / "expected.txt").read_text()

    def judge(did: dict[str, Any]) -> str:
        right = (did["code"], did["out"], did["err"]) == (0, expected, "")
        return "" if right else f"code {did['code']}: {did['err'] or did['out']}"

    return Executable(name=name, project=_EXAMPLES, judge=judge)


def _operation(name: str) -> Executable:
    program = operations.programs()[name]

    def judge(did: dict[str, Any]) -> str:
        if did["code"] or (did["err"] and not program.traced):
            return f"code {did['code']}: {did['err']}"
        with tempfile.TemporaryDirectory() as scratch:
            return program.refusal(did["out"], did["err"], Path(scratch))

    return Executable(name=name, project=_OPERATIONS, judge=judge, traced=program.traced)


def add_executables(pack: Pack, kind: str, chosen: Iterable[Executable], scratch: Path) -> None:
    """Build the executables, and put them into ``pack``."""
    names = [one.name for one in chosen if one.project == _OPERATIONS]
    if names:
        targets = [word for target in TARGETS[kind] for word in ("-t", target)]
        places = ("--build-dir", scratch / "build", "--cache-dir", scratch / "cache")
        seed(scratch)
        outcome = gpubuild("build", "-q", "-f", _OPERATIONS, *places, *targets, *names, cwd=scratch)
        assert outcome.code == 0, outcome.err
    for one in chosen:
        folder = scratch if one.project == _OPERATIONS else built_examples()
        pack.add_executable(one.name, folder / "build" / one.name / one.name, traced=one.traced)
