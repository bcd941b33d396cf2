"""Running the real program on a real project, for end-to-end tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from once import once

ROOT = Path(__file__).parents[2]

SAXPY = """\
version: 1
targets: {sm_60: {}, sm_90: {}, gfx90a: {}, cpu: {}}
programs:
  saxpy:
    sources: [saxpy.mlir, main.c]
"""


@dataclass(frozen=True)
class Outcome:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)

    def statuses(self) -> dict[str, str]:
        return {s["id"]: s["status"] for s in self.document["steps"]}


def gpubuild(
    *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None, seeded: bool = False
) -> Outcome:
    """Run ``gpubuild`` in a folder; the cache is the project's own.

    With ``seeded`` a project that is built for the first time finds the runtime in it: to compile
    that costs more than all else in most tests. Not for tests that look at which steps ran.
    """
    if (
        seeded
        and arguments[0] in ("build", "run")
        and "GPUBUILD_CACHE_DIR" not in (env or {})
        and (cwd / "targets.yaml").exists()
        and not (cwd / "build").exists()
        and not (cwd / "cache").exists()
    ):
        seed(cwd)
    return _gpubuild(*arguments, cwd=cwd, env=env)


def seed(project: Path) -> None:
    """Give a project a cache that has the compiled runtime."""
    shutil.copytree(once("runtime-in-a-cache", _cache_the_runtime) / "cache", project / "cache")


def _cache_the_runtime(folder: Path) -> None:
    """A cache that knows nothing but the compiled runtime."""
    (folder / "targets.yaml").write_text(
        "version: 1\ntargets: {cpu: {}}\nprograms: {nothing: {sources: [nothing.mlir]}}\n"
    )
    (folder / "nothing.mlir").write_text(
        "func.func @main() -> i32 {\n  %c = arith.constant 0 : i32\n  return %c : i32\n}\n"
    )
    outcome = _gpubuild("build", cwd=folder, env={"GPUBUILD_CACHE_DIR": str(folder / "cache")})
    assert outcome.code == 0, outcome.err


def _gpubuild(*arguments: str | Path, cwd: Path, env: dict[str, str] | None) -> Outcome:
    return run_module("gpubuild", *arguments, cwd=cwd, env=env)


def run_module(module: str, *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    """``python -m MODULE``, with none of our variables but those of ``env``."""
    environment = without_settings() | (env or {})
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def shared_cache() -> dict[str, str]:
    """The variable that names one cache, which has the runtime, for all tests that are not about caches."""
    return {"GPUBUILD_CACHE_DIR": str(once("shared-cache", seed) / "cache")}


def saxpy_project(folder: Path, targets_yaml: str = SAXPY) -> Path:
    """A copy of the saxpy example as a project of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("saxpy.mlir", "main.c"):
        shutil.copy(ROOT / "examples" / "saxpy" / name, folder)
    (folder / "targets.yaml").write_text(targets_yaml)
    return folder


def build_project(
    folder: Path, targets_yaml: str, files: Mapping[str, str], *, env: dict[str, str] | None = None
) -> Path:
    """Write a project and build it, with the runtime from a cache; returns the build folder."""
    for name, text in {"targets.yaml": targets_yaml, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    outcome = gpubuild("build", cwd=folder, env=env, seeded=True)
    assert outcome.code == 0, outcome.out + outcome.err
    return folder / "build"


def run_on_cpu(executable: Path, *arguments: str | Path, **variables: str) -> Outcome:
    """Run a built program on the CPU device."""
    environment = {**os.environ, "GPUBUILD_DEVICE": "cpu", **variables}
    done = subprocess.run(
        [executable, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def without_settings() -> dict[str, str]:
    """This process's environment with none of our variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GPUBUILD_")}


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first ``old``, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
