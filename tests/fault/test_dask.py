"""Builds on a Dask cluster of real processes: the bytes are those of a local build, whatever fails."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen

import pytest
from e2e.command import gpubuild, write
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
    workers,
)
from fault.dask_cluster import PATIENCE, Cluster, children, wait_until
from variants import VARIANTS

Suffering = tuple[Cluster, list[Popen[bytes]]]


@pytest.fixture(scope="module")
def suffering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Suffering]:
    """A cluster and the nannies of its two workers: the last test that uses it leaves nothing of it."""
    with Cluster(tmp_path_factory.mktemp("suffering") / "cluster") as cluster:
        nannies = [cluster.start_worker(name) for name in ("w1", "w2")]
        cluster.wait_for_workers(2)
        yield cluster, nannies


def test_bytes_are_those_of_a_local_build(local: Path, suffering: Suffering) -> None:
    done = remote(local, suffering[0], "two_workers", verify=0.2)
    assert done.code == 0, done.err
    assert set(workers(done)) == {"w1", "w2"}
    # Outline, compile, bundle and host of each source.
    assert len(workers(done)) == SOURCES * 6 + 2
    assert outputs(local / "two_workers") == outputs(local / "build")
    assert "on this machine" not in done.err


def test_an_error_has_the_text_of_a_local_build(suffering: Suffering, tmp_path: Path) -> None:
    root = "%root = math.exp %new : f32"
    broken = {
        "syntax": KERNEL.format(number=0).replace(root, '%root = "nope.op"(%new) : (f32) -> f32'),
        "chip": KERNEL.format(number=1).replace("gpu.return", "rocdl.s.barrier\n gpu.return"),
    }
    write(tmp_path, {f"{name}.mlir": text for name, text in broken.items()})
    programs = {name: {"sources": [f"{name}.mlir"]} for name in broken}
    document = {"version": 1, "targets": {"sm_60": {}}, "programs": programs}
    (tmp_path / "targets.yaml").write_text(json.dumps(document))
    here = gpubuild("build", "-k", cwd=tmp_path, seeded=True, code=1)
    there = remote(tmp_path, suffering[0], "build", "-k")
    assert there.code == 1
    messages = [step["error"]["message"] for step in there.document["steps"] if "error" in step]
    assert len(messages) == len(broken)
    assert all(message in here.err for message in messages), (here.err, messages)


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


def test_a_worker_that_stops(local: Path, suffering: Suffering) -> None:
    """It neither answers nor goes away: the other worker and this machine do its steps."""
    cluster, (stopping, _) = suffering
    for when in ("in_mid_build", "before")[: 2 if VARIANTS else 1]:
        file = project_for(local, cluster, f"stopped_{when}", timeouts={"no_worker": 2, "step": 3})
        build = begin(file)
        cluster.stop(stopping)
        ends_well(build, file)
    cluster.stop(stopping, signal.SIGCONT)


def test_ctrl_c_leaves_no_job(local: Path, suffering: Suffering) -> None:
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


def test_kills_in_mid_build(local: Path, suffering: Suffering) -> None:
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
