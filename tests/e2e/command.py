"""Running the real program on a real project, for end-to-end tests."""

from __future__ import annotations

import json
import os
import shlex
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
    *arguments: str | Path,
    cwd: Path,
    env: dict[str, str] | None = None,
    seeded: bool = False,
    code: int | None = None,
) -> Outcome:
    """Run ``gpubuild`` in a folder, and check its exit ``code`` if given; the cache is the project's own.

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
    return checked(_gpubuild(*arguments, cwd=cwd, env=env), code)


def seed(project: Path) -> None:
    """Give a project a cache that has the compiled runtime."""
    shutil.copytree(once("runtime-in-a-cache", _cache_the_runtime) / "cache", project / "cache")


def _cache_the_runtime(folder: Path) -> None:
    """A cache that knows nothing but the compiled runtime."""
    nothing = "func.func @main() -> i32 {\n  %c = arith.constant 0 : i32\n  return %c : i32\n}\n"
    write(
        folder, {"targets.yaml": project_file("nothing: {sources: [nothing.mlir]}"), "nothing.mlir": nothing}
    )
    # A compiler that is named compiles the runtime even where a wheel has it.
    for compiler in ({}, {"GPUBUILD_CC": "cc"} if shutil.which("cc") else {}):
        env = {"GPUBUILD_CACHE_DIR": str(folder / "cache")} | compiler
        checked(_gpubuild("build", cwd=folder, env=env), 0)


def _gpubuild(*arguments: str | Path, cwd: Path, env: dict[str, str] | None) -> Outcome:
    return run_module("gpubuild", *arguments, cwd=cwd, env=env)


def run_module(module: str, *arguments: str | Path, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    """``python -m MODULE``, with none of our variables but those of ``env``."""
    environment = without_settings() | (env or {})
    return execute(sys.executable, "-m", module, *arguments, cwd=cwd, env=environment, code=None)


def execute(
    *command: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: int | None = 0,
    stdin: str | None = None,
) -> Outcome:
    """Run any command, and check its exit ``code`` unless that is ``None``."""
    done = subprocess.run(
        command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=300, check=False
    )
    return checked(Outcome(done.returncode, done.stdout, done.stderr), code)


def run_python(
    script: str,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    code: int | None = 0,
) -> Outcome:
    """Run a script given as text with this Python."""
    return execute(sys.executable, "-c", script, *arguments, cwd=cwd, env=env, code=code)


def checked(outcome: Outcome, code: int | None) -> Outcome:
    assert code in (None, outcome.code), outcome.out + outcome.err
    return outcome


def launcher(folder: Path, *, log: Path | None = None) -> Path:
    """Make ``folder`` with a command ``gpubuild``, the one under test; ``log`` gets a line for each call."""
    folder.mkdir(exist_ok=True)
    script = folder / "gpubuild"
    noted = f'echo "$*" >> {shlex.quote(str(log))}\n' if log else ""
    script.write_text(f'#!/bin/sh\n{noted}exec {shlex.quote(sys.executable)} -P -m gpubuild "$@"\n')
    script.chmod(0o755)
    return folder


def quick_compiler(folder: Path) -> str:
    """The system's C compiler, but it does not optimise the runtime, which takes a third of the time."""
    script = folder / "quick-cc"
    script.write_text('#!/bin/sh\nexec cc "$@" -O0\n')
    script.chmod(0o755)
    return str(script)


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


def cpu_demo(folder: Path) -> Path:
    """The project of ``gpubuild init`` for the CPU and one NVIDIA GPU, built."""
    gpubuild("init", "demo", cwd=folder, code=0)
    file = folder / "demo" / "targets.yaml"
    file.write_text(file.read_text().replace("  sm_60: {}\n", "").replace("  gfx90a: {}\n", ""))
    gpubuild("build", "-q", cwd=folder / "demo", env=shared_cache(), code=0)
    return folder / "demo"


def project_file(*programs: str, targets: str = "cpu: {}", more: str = "") -> str:
    """The text of a ``targets.yaml``; each program is a name, a colon and its keys in braces."""
    return f"version: 1\ntargets: {{{targets}}}\n{more}programs:\n" + "".join(f"  {p}\n" for p in programs)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files, and the folders they are in; returns ``folder``."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def build_project(
    folder: Path, targets_yaml: str, files: Mapping[str, str], *, env: dict[str, str] | None = None
) -> Path:
    """Write a project and build it, with the runtime from a cache; returns the build folder."""
    write(folder, {"targets.yaml": targets_yaml, **files})
    gpubuild("build", cwd=folder, env=env, seeded=True, code=0)
    return folder / "build"


def run_on_cpu(executable: Path, *arguments: str | Path, **variables: str) -> Outcome:
    """Run a built program on the CPU device."""
    return execute(executable, *arguments, env=os.environ | {"GPUBUILD_DEVICE": "cpu"} | variables, code=None)


def without_settings() -> dict[str, str]:
    """This process's environment with none of our variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GPUBUILD_")}


def edit(path: Path, old: str, new: str) -> None:
    """Replace the first ``old``, which must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
