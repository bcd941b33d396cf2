"""Reproducible: two clones that differ in all that should not matter give the same keys and bytes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from e2e.command import ROOT, gpubuild, run_on_cpu, seed, write

# Debug information and __FILE__, because they are what usually brings a path into a program.
YAML = """\
version: 1
defaults: {debug: true}
targets: {sm_60: {}, gfx90a: {}, cpu: {}}
programs:
  app: {sources: [kernels/saxpy.mlir, src/main.c, src/where.c]}
"""
WHERE = """\
#include <assert.h>
#include "inc/where.h"
const char *where(void) { assert(sizeof(PLACE) > 1); return __FILE__ PLACE; }
"""
ORDER = ("targets.yaml", "kernels/saxpy.mlir", "src/main.c", "src/where.c", "src/inc/where.h")
IGNORED = (
    "state.json",
    "tools.json",
    "builds.jsonl",
    "lock",
)  # what a build notes about this machine's files


def clone(folder: Path, names: tuple[str, ...], seconds: float) -> Path:
    """The sources, written in this order, last changed ``seconds`` after 1970."""
    saxpy = ROOT / "examples" / "saxpy"
    contents = {
        "targets.yaml": YAML,
        "kernels/saxpy.mlir": (saxpy / "saxpy.mlir").read_text(),
        "src/main.c": (saxpy / "main.c").read_text(),
        "src/where.c": WHERE,
        "src/inc/where.h": '#define PLACE " in " __FILE__\n',
    }
    assert set(contents) == set(names)
    write(folder, {name: contents[name] for name in names})
    for name in names:
        os.utime(folder / name, (seconds, seconds))
    return folder


def build(project: Path, cwd: Path, umask: int, jobs: int, environment: dict[str, str]) -> None:
    for variable in ("HOME", "TMPDIR"):
        Path(environment[variable]).mkdir(parents=True)
    seed(project)  # with the runtime, whose archives tests/unit/engine/cc/test_runtime_library.py compares
    old = os.umask(umask)
    try:
        file = project / "targets.yaml"
        outcome = gpubuild("build", "--json", f"-j{jobs}", "-f", file, cwd=cwd, env=environment, code=0)
    finally:
        os.umask(old)
    assert {status for step, status in outcome.statuses().items() if step != "runtime"} == {"ran"}


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    base = tmp_path_factory.mktemp("clones")
    one = clone(base / "one", ORDER, 1.7e9)
    build(
        one, one, 0o022, 1,
        {
            "HOME": str(base / "home"), "TMPDIR": str(base / "tmp"), "TZ": "UTC",
            "LC_ALL": "C", "PYTHONHASHSEED": "1",
        },
    )  # fmt: skip
    other = clone(base / "another place" / "quite" / "deep ü", ORDER[::-1], 1.2e9)
    build(
        other, base, 0o077, 7,
        {
            "HOME": str(base / "home of another"), "TMPDIR": str(base / "scratch"), "TZ": "Asia/Kathmandu",
            "LC_ALL": "C.utf8", "LANG": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "SOURCE_DATE_EPOCH": "1",
            "USER": "somebody", "COLUMNS": "40",
        },
    )  # fmt: skip
    return one, other


def contents(project: Path) -> dict[str, bytes]:
    build = project / "build"
    return {
        path.relative_to(build).as_posix(): path.read_bytes()
        for path in build.rglob("*")
        if path.is_file()
        and path.name not in IGNORED
        and not {"receipts", "work"} & set(path.relative_to(build).parts)
    }


def test_the_keys_are_the_same(clones: tuple[Path, Path]) -> None:
    keys = [
        {step: record["key"] for step, record in json.loads(state.read_bytes())["steps"].items()}
        for state in (project / "build/.gpubuild/state.json" for project in clones)
    ]
    assert len(keys[0]) > 10
    assert keys[0] == keys[1]


def test_every_file_is_the_same(clones: tuple[Path, Path]) -> None:
    one, other = map(contents, clones)
    assert one.keys() == other.keys()
    assert {name for name in one if one[name] != other[name]} == set()
    assert {"app/app", "app/saxpy_kernels.sm_60.cubin", "app/saxpy_kernels.cpu.so"} <= one.keys()
    assert ".gpubuild/runtime/libgpubuild_rt.a" in one


def test_no_path_of_this_machine_is_in_it(clones: tuple[Path, Path]) -> None:
    for project in clones:
        for name, data in contents(project).items():
            if name.endswith("/deps"):
                continue  # the headers that the preprocessor has read: never part of a key
            assert str(project.parent).encode() not in data, name


def test_it_runs(clones: tuple[Path, Path]) -> None:
    assert run_on_cpu(clones[1] / "build/app/app").code == 0


def test_one_clone_serves_the_other(clones: tuple[Path, Path], tmp_path: Path) -> None:
    project = Path(
        shutil.copytree(clones[0], tmp_path / "p", ignore=shutil.ignore_patterns("build", "cache"))
    )
    outcome = gpubuild("build", "--json", "--cache-dir", clones[1] / "cache", cwd=project)
    assert set(outcome.statuses().values()) == {"hit-local"}
