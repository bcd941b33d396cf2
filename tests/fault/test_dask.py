"""Builds on a Dask cluster of real processes: the bytes are those of a local build, whatever fails."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from e2e.command import gpubuild
from fault.dask_builds import (
    KERNEL,
    SOURCES,
    arguments,
    begin,
    ends_well,
    outputs,
    project_file,
    project_for,
    remote,
    two_workers,
    workers,
)
from fault.dask_cluster import PATIENCE, Cluster, children, wait_until
from variants import VARIANTS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with two_workers(tmp_path_factory.mktemp("shared")) as cluster:
        yield cluster


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
        here = gpubuild("build", cwd=project, seeded=True)
        there = remote(project, shared, "build")
        assert here.code == there.code == 1
        messages = [step["error"] for step in there.document["steps"] if "error" in step]
        assert messages
        assert all(error["message"] in here.err for error in messages), (here.err, messages)


# What to kill, one after the other: each build has less of the cluster than the one before.
KILLED: dict[str, Callable[[Cluster, list[Popen[bytes]]], int]] = {
    "workers": lambda cluster, nannies: _kill([pid for nanny in nannies for pid in children(nanny.pid)]),
    "agent": lambda cluster, nannies: cluster.kill("gpubuild.execute.agent"),
    "nanny": lambda cluster, nannies: cluster.kill("--name w1"),
    "scheduler": lambda cluster, nannies: cluster.kill("dask_scheduler"),
}


def _kill(pids: list[int]) -> int:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


@pytest.fixture(scope="module")
def suffering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, list[Popen[bytes]]]]:
    """A cluster and the nannies of its two workers: the last test that uses it leaves nothing of it."""
    with Cluster(tmp_path_factory.mktemp("suffering") / "cluster") as cluster:
        nannies = [cluster.start_worker(name) for name in ("w1", "w2")]
        cluster.wait_for_workers(2)
        yield cluster, nannies


def test_a_worker_that_stops(local: Path, suffering: tuple[Cluster, list[Popen[bytes]]]) -> None:
    """It neither answers nor goes away: the other worker and this machine do its steps."""
    cluster, (stopping, _) = suffering
    for when in ("in_mid_build", "before")[: 2 if VARIANTS else 1]:
        file = project_for(local, cluster, f"stopped_{when}", timeouts={"no_worker": 2, "step": 3})
        build = begin(file)
        cluster.stop(stopping)
        ends_well(build, file)
    cluster.stop(stopping, signal.SIGCONT)


def test_ctrl_c_leaves_no_job(local: Path, suffering: tuple[Cluster, list[Popen[bytes]]]) -> None:
    """What workers have of it ends with them, as the next test sees."""
    cluster, nannies = suffering
    build = begin(project_for(local, cluster, "interrupted"))
    for nanny in nannies:
        cluster.stop(nanny)  # so that the build cannot end by itself
    build.send_signal(signal.SIGINT)
    build.communicate(timeout=PATIENCE)
    assert build.returncode == 130
    for nanny in nannies:
        cluster.stop(nanny, signal.SIGCONT)


def test_kills_in_mid_build(local: Path, suffering: tuple[Cluster, list[Popen[bytes]]]) -> None:
    cluster, nannies = suffering
    for what in KILLED if VARIANTS else ("workers", "scheduler"):
        waiting = {"no_worker": 60, "step": 100} if what == "workers" else {"connect": 2, "no_worker": 3}
        file = project_for(local, cluster, f"killed_{what}", timeouts=waiting)
        build = begin(file, "outline" if what == "workers" else "compile")
        before = cluster.registered()
        assert KILLED[what](cluster, nannies)
        err = ends_well(build, file)
        assert what != "scheduler" or "ran on this machine: " in err
        if what == "workers":  # their nannies start others, which have other addresses
            cluster.wait_for_workers(before + 2)
    cluster.kill("dask_worker")
    wait_until(lambda: not cluster.processes())


def test_workers_with_another_tool_get_no_step_of_it(local: Path, tmp_path: Path) -> None:
    other = tmp_path / "ptxas"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_worker("w1", "--no-nanny", GPUBUILD_PTXAS=str(other))
        cluster.wait_for_workers(1)
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
from gpubuild.execute import dask_worker as dask
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
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_worker("liar", "--no-nanny", "--preload", str(tmp_path / "lie.py"))
        done = remote(local, cluster, "lies", verify=1)
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
    execute = {"dask": address or "tcp://h:1", "timeouts": {"connect": 1}}
    file = project_file(local, tmp_path.name, execute)
    done = gpubuild(*arguments(file, str(tmp_path / "build")), *more, cwd=local)
    assert done.code == code, done.err
    assert text in done.err


def test_an_address_in_a_file_must_be_encrypted_as_well(local: Path, tmp_path: Path) -> None:
    scheduler = tmp_path / "scheduler.json"
    scheduler.write_text(json.dumps({"address": "tcp://192.0.2.1:8786"}))
    file = project_file(local, tmp_path.name, {"scheduler_file": str(scheduler)})
    built = gpubuild(*arguments(file, str(tmp_path / "build")), cwd=local)
    worker = gpubuild("worker", "--scheduler-file", str(scheduler), cwd=local)
    for done in (built, worker):
        assert done.code == 2, done.err
        assert "tcp://192.0.2.1:8786 is not encrypted" in done.err
