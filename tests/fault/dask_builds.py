"""A project that is built on this machine and on clusters, and what its builds make."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from e2e.command import Outcome, gpubuild, seed
from fault.dask_cluster import PATIENCE, Cluster
from once import once

# Who imports this is skipped, too. Importing Dask here would change how errors are pickled.
if find_spec("distributed") is None:
    pytest.skip("Dask is not installed", allow_module_level=True)
SOURCES = 2
KERNEL = """\
gpu.module @kernels_{number} {{
  gpu.func @scale(%x: memref<?xf32>) kernel {{
    %i = gpu.global_id x
    %k = arith.constant {number}.5 : f32
    %old = memref.load %x[%i] : memref<?xf32>
    %new = arith.mulf %k, %old : f32
    %root = math.exp %new : f32
    memref.store %root, %x[%i] : memref<?xf32>
    gpu.return
  }}
}}
"""
MAIN = """\
func.func private @other()
func.func @main() -> i32 {
  %c = arith.constant 0 : i32
  return %c : i32
}
"""


def make_project(folder: Path) -> Path:
    """Return a project that was built on this machine, into the folder ``build``."""
    shutil.copytree(once("project for clusters", _build_project), folder, dirs_exist_ok=True)
    return folder


def _build_project(project: Path) -> None:
    names = [f"k{number}.mlir" for number in range(SOURCES)]
    for number, name in enumerate(names):  # one of over 1 MB
        (project / name).write_text(KERNEL.format(number=number) + "// long\n" * 200_000 * number)
    (project / "main.mlir").write_text(MAIN)
    program = {"sources": ["main.mlir", *names]}
    document = {"version": 1, "targets": {"sm_60": {}, "gfx90a": {}, "cpu": {}}, "programs": {"p": program}}
    (project / "targets.yaml").write_text(json.dumps(document))
    done = gpubuild("build", cwd=project, seeded=True)
    assert done.code == 0, done.err


@contextmanager
def two_workers(folder: Path, **variables: str) -> Iterator[Cluster]:
    """Start a cluster of `w1` and `w2`."""
    with Cluster(folder) as made:
        for name in ("w1", "w2"):
            made.start_worker(name, "--no-nanny", **variables)
        made.wait_for_workers(2)
        yield made


def outputs(folder: Path) -> dict[str, bytes]:
    """Return the files of a build folder that users see."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".gpubuild" not in path.parts
    }


def project_file(project: Path, name: str, execute: object) -> Path:
    """Write a project file beside ``project``'s with this section `execute:`."""
    document = json.loads((project / "targets.yaml").read_text())
    file = project / f"{name}.yaml"
    file.write_text(json.dumps(document | {"execute": execute}))
    return file


def project_for(project: Path, cluster: Cluster, name: str, **execute: object) -> Path:
    """Write a project file that uses the cluster alone."""
    usual = {"scheduler_file": str(cluster.file), "only": True, "timeouts": {"no_worker": 3, "step": 60}}
    return project_file(project, name, usual | execute)


def arguments(file: Path, folder: str = "") -> list[str]:
    """Return those of a build with a cache that has the runtime library and nothing else."""
    own = file.parent / f"of-{file.stem}"
    if not own.exists():
        seed(own)
    cache = str(own / "cache")
    return ["build", "--cache-dir", cache, "-f", file.name, "--build-dir", folder or file.stem]


def remote(project: Path, cluster: Cluster, name: str, *more: str, **execute: object) -> Outcome:
    """Build on a cluster."""
    file = project_for(project, cluster, name, **execute)
    return gpubuild(*arguments(file), "--json", *more, cwd=project)


def workers(done: Outcome) -> list[str]:
    """Return the worker of each step that ran on one."""
    return [step["worker"] for step in done.document["steps"] if "worker" in step]


def begin(file: Path, until: str = "outline") -> subprocess.Popen[str]:
    """Start a build, and wait for a line about a step of this name."""
    command = [sys.executable, "-m", "gpubuild", *arguments(file)]
    build = subprocess.Popen(
        command,
        cwd=file.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    )
    while until not in (line := build.stdout.readline()):
        assert line, build.communicate()
    return build


def ends_well(build: subprocess.Popen[str], file: Path) -> str:
    """Check that a build makes the bytes of the local one, and return what it says."""
    _, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, err
    assert outputs(file.with_suffix("")) == outputs(file.parent / "build")
    return err
