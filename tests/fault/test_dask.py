"""Builds on a Dask cluster of real processes: the bytes are those of a local build, whatever fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from e2e.command import Outcome, gpubuild, seed
from fault.dask_cluster import PATIENCE, Cluster, children, wait_until

# Importing it here would change how errors are pickled.
if find_spec("distributed") is None:
    pytest.skip("Dask is not installed", allow_module_level=True)
SOURCES = 4
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


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that was built on this machine, into the folder ``build``."""
    return make_project(tmp_path_factory.mktemp("project"))


def make_project(project: Path) -> Path:
    """Write a project, and build it on this machine into the folder `build`."""
    project.mkdir(exist_ok=True)
    names = [f"k{number}.mlir" for number in range(SOURCES)]
    for number, name in enumerate(names):
        (project / name).write_text(KERNEL.format(number=number))
    (project / "main.mlir").write_text(MAIN)
    program = {"sources": ["main.mlir", *names]}
    document = {"version": 1, "targets": {"sm_60": {}, "gfx90a": {}, "cpu": {}}, "programs": {"p": program}}
    (project / "targets.yaml").write_text(json.dumps(document))
    done = gpubuild("build", cwd=project, seeded=True)
    assert done.code == 0, done.err
    return project


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from started(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    yield from started(tmp_path / "cluster")


def started(folder: Path, **variables: str) -> Iterator[Cluster]:
    made = Cluster(folder)
    try:
        for name in ("w1", "w2"):
            made.start_worker(name, **variables)
        yield made
    finally:
        made.close()


def outputs(folder: Path) -> dict[str, bytes]:
    """The files of a build folder that users see."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".gpubuild" not in path.parts
    }


def project_for(project: Path, cluster: Cluster, folder: str, **execute: object) -> Path:
    """Write a project file beside ``project``'s that uses the cluster."""
    document = json.loads((project / "targets.yaml").read_text())
    settings = {
        "scheduler_file": str(cluster.file),
        "only": True,
        "timeouts": {"no_worker": 3, "step": 60},
    } | execute
    file = project / f"{folder}.yaml"
    file.write_text(json.dumps(document | {"execute": settings}))
    return file


def arguments(file: Path, folder: str = "") -> list[str]:
    """A build with a cache that has the runtime library and nothing else."""
    own = file.parent / f"of-{file.stem}"
    if not own.exists():
        seed(own)
    cache = str(own / "cache")
    return ["build", "--cache-dir", cache, "-f", file.name, "--build-dir", folder or file.stem]


def remote(project: Path, cluster: Cluster, folder: str, *more: str, **execute: object) -> Outcome:
    file = project_for(project, cluster, folder, **execute)
    return gpubuild(*arguments(file), "--json", *more, cwd=project)


def workers(done: Outcome) -> list[str]:
    """The worker of each step that ran on one."""
    return [step["worker"] for step in done.document["steps"] if "worker" in step]


def test_bytes_are_those_of_a_local_build(local: Path, shared: Cluster) -> None:
    done = remote(local, shared, "two_workers", verify=0.2)
    assert done.code == 0, done.err
    assert set(workers(done)) == {"w1", "w2"}
    # Outline, compile, bundle and host of each source.
    assert len(workers(done)) == SOURCES * 6 + 2
    assert outputs(local / "two_workers") == outputs(local / "build")
    assert "on this machine" not in done.err


def test_an_error_has_the_text_of_a_local_build(local: Path, shared: Cluster, tmp_path: Path) -> None:
    bad = KERNEL.format(number=0).replace(
        "%root = math.exp %new : f32", '%root = "nope.op"(%new) : (f32) -> f32'
    )
    broken = {
        "syntax": bad,
        "chip": KERNEL.format(number=1).replace("gpu.return", "rocdl.s.barrier\n gpu.return"),
    }
    for name, text in broken.items():
        project = tmp_path / name
        project.mkdir()
        (project / "k.mlir").write_text(text)
        document = {"version": 1, "targets": {"sm_60": {}}, "programs": {"p": {"sources": ["k.mlir"]}}}
        (project / "targets.yaml").write_text(json.dumps(document))
        here = gpubuild("build", "--no-cache", cwd=project)
        there = remote(project, shared, "build")
        assert here.code == there.code == 1
        messages = [step["error"] for step in there.document["steps"] if "error" in step]
        assert messages
        assert all(error["message"] in here.err for error in messages), (here.err, messages)


# The processes, by words on their command lines.
KILLED = {"worker": "--name w1", "agent": "gpubuild.execute.agent", "scheduler": "dask_scheduler"}


@pytest.mark.parametrize("what", KILLED)
def test_a_kill_in_mid_build(local: Path, cluster: Cluster, what: str) -> None:
    file = project_for(local, cluster, f"killed_{what}")
    command = [sys.executable, "-m", "gpubuild", *arguments(file)]
    build = subprocess.Popen(
        command, cwd=local, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert build.stdout is not None
    while "compile" not in (line := build.stdout.readline()):
        assert line, build.communicate()
    assert cluster.kill(KILLED[what])
    _, err = build.communicate(timeout=PATIENCE)
    assert build.returncode == 0, err
    assert outputs(local / file.stem) == outputs(local / "build")
    if what == "scheduler":
        assert "ran on this machine: " in err


@pytest.mark.parametrize("when", ["before", "in mid-build"])
def test_a_worker_that_stops(local: Path, tmp_path: Path, when: str) -> None:
    """It neither answers nor goes away: the other worker and this machine do its steps."""
    cluster = Cluster(tmp_path / "cluster")
    try:
        stopping, _ = cluster.start_worker("w1"), cluster.start_worker("w2")
        file = project_for(local, cluster, f"stopped_{when[:2]}", timeouts={"no_worker": 3, "step": 4})
        cluster.wait_for_workers(2)
        if when == "before":
            cluster.stop(stopping)
        command = [sys.executable, "-m", "gpubuild", *arguments(file)]
        build = subprocess.Popen(
            command, cwd=local, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert build.stdout is not None
        if when != "before":
            assert "outline" in build.stdout.readline()
            cluster.stop(stopping)
        _, err = build.communicate(timeout=PATIENCE)
        assert build.returncode == 0, err
        assert outputs(local / file.stem) == outputs(local / "build")
    finally:
        cluster.close()


def test_a_worker_that_comes_back_elsewhere(local: Path, tmp_path: Path) -> None:
    """The only worker is killed: its nanny starts another one, with another address."""
    cluster = Cluster(tmp_path / "cluster")
    try:
        nanny = cluster.start_worker("w1")
        file = project_for(local, cluster, "comes_back", timeouts={"no_worker": 60, "step": 100})
        build = subprocess.Popen(
            [sys.executable, "-m", "gpubuild", *arguments(file)],
            cwd=local, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert build.stdout is not None
        assert "outline" in build.stdout.readline()
        found = children(nanny.pid)
        assert found
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        _, err = build.communicate(timeout=60)
        assert build.returncode == 0, err
        assert outputs(local / file.stem) == outputs(local / "build")
    finally:
        cluster.close()


def test_ctrl_c_leaves_no_job(local: Path, cluster: Cluster) -> None:
    file = project_for(local, cluster, "interrupted")
    command = [sys.executable, "-m", "gpubuild", *arguments(file)]
    build = subprocess.Popen(command, cwd=local, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert build.stdout is not None
    while "compile" not in (line := build.stdout.readline()):
        assert line, build.communicate()
    build.send_signal(signal.SIGINT)
    build.communicate(timeout=PATIENCE)
    assert build.returncode == 130
    cluster.kill("dask_worker")
    cluster.kill("dask_scheduler")
    wait_until(lambda: not cluster.processes())


def test_workers_with_another_tool_get_no_step_of_it(local: Path, tmp_path: Path) -> None:
    other = tmp_path / "ptxas"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    for cluster in started(tmp_path / "cluster", GPUBUILD_PTXAS=str(other)):
        done = remote(local, cluster, "other_ptxas")
        assert done.code == 0, done.err
        by_target = {step.get("target") for step in done.document["steps"] if "worker" in step}
        assert by_target == {None, "gfx90a", "cpu"}
        assert f"{SOURCES} steps ran on this machine: no worker has the same tools" in done.err
        refused = remote(local, cluster, "no_fallback", "--no-fallback")
        assert refused.code == 1
        assert "no worker ran the step: no worker has the same tools" in refused.err + refused.out


LIE = """
import msgpack
from gpubuild.execute import dask
from gpubuild.model.digest import digest_bytes
honest = getattr(dask, "honest", dask.run_message)  # Dask loads this twice
dask.honest = honest
def lie(message):
    worker, answer = honest(message)
    answer = msgpack.unpackb(answer)
    for number, blob in enumerate(answer["result"]["result"]["blobs"]):
        answer["blobs"][number] += b" "
        blob |= {"digest": digest_bytes(answer["blobs"][number]), "size_bytes": blob["size_bytes"] + 1}
    return worker, msgpack.packb(answer)
dask.run_message = lie
"""


def test_a_lying_worker_is_named(local: Path, tmp_path: Path) -> None:
    (tmp_path / "lie.py").write_text(LIE)
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.start_worker("liar", "--preload", str(tmp_path / "lie.py"))
        done = remote(local, cluster, "lies", verify=1)
    finally:
        cluster.close()
    assert done.code == 1
    assert "worker liar made other bytes than this machine: " in done.out
    assert not outputs(local / "lies")


@pytest.mark.parametrize(
    ("address", "more", "code", "text"),
    [
        ("tcp://127.0.0.1:1", [], 0, "all steps run on this machine"),
        ("tcp://127.0.0.1:1", ["--no-fallback"], 2, "no Dask scheduler answers at tcp://127.0.0.1:1"),
        ("tcp://192.0.2.1:8786", [], 2, "is not encrypted"),
        ("ftp://192.0.2.1", [], 2, "is no address of a Dask scheduler"),
        ("", ["--executor", "slurm:here"], 2, "there is no executor 'slurm:here'"),
    ],
)
def test_addresses(local: Path, tmp_path: Path, address: str, more: list[str], code: int, text: str) -> None:
    document = json.loads((local / "targets.yaml").read_text())
    execute = {"dask": address or "tcp://h:1", "timeouts": {"connect": 1}}
    file = local / f"{tmp_path.name}.yaml"
    file.write_text(json.dumps(document | {"execute": execute}))
    done = gpubuild(*arguments(file, str(tmp_path / "build")), *more, cwd=local)
    assert done.code == code, done.err
    assert text in done.err


def test_an_address_in_a_file_must_be_encrypted_as_well(local: Path, tmp_path: Path) -> None:
    scheduler = tmp_path / "scheduler.json"
    scheduler.write_text(json.dumps({"address": "tcp://192.0.2.1:8786"}))
    document = json.loads((local / "targets.yaml").read_text())
    file = local / f"{tmp_path.name}.yaml"
    file.write_text(json.dumps(document | {"execute": {"scheduler_file": str(scheduler)}}))
    built = gpubuild(*arguments(file, str(tmp_path / "build")), cwd=local)
    worker = gpubuild("worker", "--scheduler-file", str(scheduler), cwd=local)
    for done in (built, worker):
        assert done.code == 2, done.err
        assert "tcp://192.0.2.1:8786 is not encrypted" in done.err
