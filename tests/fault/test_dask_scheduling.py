"""Which steps go to which workers, from the command, SCons and Python. Bytes are those of a local build."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.built_examples import built_examples
from e2e.command import ROOT, gpubuild, run_module, seed
from e2e.scons_project import copy_of_the_project, scons, the_project
from fault.dask_builds import outputs, remote, workers
from fault.dask_cluster import Cluster
from variants import nightly

FILES = int(os.environ.get("GPUBUILD_TEST_CLUSTER", "2"))
ALL = 40  # 484 steps

# A preload of a worker, which does what a file says.
BAD = """
import msgpack, os, time
from distributed import get_worker
from gpubuild.execute import dask_worker as dask, wire
from gpubuild.model.digest import digest_bytes
honest = getattr(dask, "honest", dask.run_message)  # Dask loads this twice
dask.honest = honest
def refuses(message):
    return get_worker().address, wire.pack_refusal("no room")
def kills(message):
    texts = dict.fromkeys(("message", "hint", "stage", "output", "kernel"), "no memory")
    error = {"kind": "StepKilledError", "diagnostics": [], **texts}
    return get_worker().address, msgpack.packb({"version": wire.VERSION, "worker": "bad", "error": error})
def nonsense(message):
    return ["no address"], b"nonsense"
# Ends when its first answer is fetched. The worker that the nanny starts next does not.
def loses(message):
    mark = os.path.join(os.environ["TMPDIR"], "lost")
    def end(*arguments, **settings):
        open(mark, "x").close()
        os._exit(1)
    if not os.path.exists(mark):
        get_worker().handlers["get_data"] = end
    return honest(message)
def lies(message):
    worker, answer = honest(message)
    answer = msgpack.unpackb(answer)
    for number, blob in enumerate(answer["result"]["result"]["blobs"]):
        answer["blobs"][number] += b" "
        blob |= {"digest": digest_bytes(answer["blobs"][number]), "size_bytes": blob["size_bytes"] + 1}
    return worker, msgpack.packb(answer)
def sleeps(message):
    time.sleep(100)
    return honest(message)
def bad(message):
    with open(os.environ["BAD"]) as stream:
        return globals()[stream.read()](message)
dask.run_message = bad
"""
# Appends to a file that all workers share: a line is written at once.
COUNT = """
import os
from gpubuild.execute import dask_worker as dask
honest = getattr(dask, "honest", dask.run_message)
dask.honest = honest
def count(message):
    def note(sign):
        with open(os.environ["COUNTED"], "a") as stream:
            stream.write(sign)
    note("+")
    answer = honest(message)
    note("-")
    return answer
dask.run_message = count
"""

# Appends how many steps each message has.
SIZES = """
import os
from gpubuild.execute import dask_worker as dask
whole = getattr(dask, "whole", dask.run_messages)
dask.whole = whole
def note_size(messages):
    with open(os.environ["SIZES"], "a") as stream:
        stream.write(f"{len(messages)} ")
    return whole(messages)
dask.run_messages = note_size
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers, which note in the files `sizes` and `counted` of the folder what they do."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "notes.py").write_text(SIZES + COUNT)
    with Cluster(folder / "made") as cluster:
        files = {name.upper(): str(cluster.folder / name) for name in ("sizes", "counted")}
        for name in ("w1", "w2"):
            cluster.start_worker(name, "--no-nanny", "--preload", str(folder / "notes.py"), **files)
        cluster.wait_for_workers(2)
        yield cluster


@pytest.fixture(scope="module")
def with_a_bad_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "bad.py").write_text(BAD)
    with Cluster(folder / "cluster") as cluster:
        cluster.start_worker("good")
        cluster.start_worker("bad", "--preload", str(folder / "bad.py"), BAD=str(folder / "what"))
        cluster.wait_for_workers(2)
        yield cluster


@pytest.fixture
def mixed(with_a_bad_worker: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of a good worker, and of one that does what the test's name says."""
    (with_a_bad_worker.folder.parent / "what").write_text(request.param)
    return with_a_bad_worker


def executor(cluster: Cluster) -> str:
    return f"dask:{cluster.address}"


@pytest.mark.parametrize("mixed", ["lies"], indirect=True)
def test_a_lying_worker_is_named(local: Path, mixed: Cluster) -> None:
    done = remote(local, mixed, "lies", verify=1)
    assert done.code == 1
    assert "worker bad made other bytes than this machine: " in done.out
    assert outputs(local / "lies").items() <= outputs(local / "build").items()


# What the bad worker does; options of the build and of the cluster; who runs the steps, or what is said.
BAD_WORKERS = [
    ("kills", [], {}, "the good worker"),
    pytest.param("refuses", [], {}, "the good worker", marks=nightly),
    ("refuses", [], {"retries": 0}, "ran on this machine: a worker"),
    pytest.param("kills", [], {"retries": 0}, "ran on this machine: a worker", marks=nightly),
    ("nonsense", [], {}, ""),
    ("loses", [], {}, "both workers"),  # an answer: the step runs on a worker again
    ("sleeps", ["-j1"], {"only": False, "timeouts": {"step": 1800}}, "machine: the workers took longer"),
]


@pytest.mark.parametrize(("mixed", "more", "execute", "who"), BAD_WORKERS, indirect=["mixed"])
def test_a_bad_worker_beside_a_good_one(
    local: Path, mixed: Cluster, more: list[str], execute: dict[str, object], who: str
) -> None:
    folder = f"bad_{len(list(local.iterdir()))}"
    done = remote(local, mixed, folder, *more, **execute)
    assert done.code == 0, done.err
    assert outputs(local / folder) == outputs(local / "build")
    if who == "both workers":
        assert (mixed.folder / "tmp/lost").exists()
    else:
        assert "bad" not in workers(done)
    if who in ("the good worker", "both workers"):
        assert "on this machine" not in done.err
        assert "good" in workers(done)
    else:
        assert who in done.err


def test_without_workers_steps_run_here(local: Path, tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        done = remote(local, cluster, "no_workers", "-j8", timeouts={"no_worker": 2})
    assert done.code == 0, done.err
    assert "has no workers yet: waiting" in done.err
    assert "steps ran on this machine: no worker with the same tools is left" in done.err
    assert outputs(local / "no_workers") == outputs(local / "build")


def test_no_more_threads_are_used_than_allowed(local: Path, cluster: Cluster) -> None:
    counted = cluster.folder / "counted"
    counted.write_text("")
    done = remote(local, cluster, "one_job", jobs=1)
    assert done.code == 0, done.err
    steps = len(workers(done))
    assert steps > 5
    assert counted.read_text() == "+-" * steps
    assert "on this machine" not in done.err


def own_cache(folder: Path) -> str:
    """A cache that has the runtime library and nothing else."""
    seed(folder)
    return str(folder / "cache")


def test_generated_projects_and_examples_have_the_same_bytes(cluster: Cluster, tmp_path: Path) -> None:
    """Small steps travel together, up to eight in a message, and each has its own result."""
    more = ["--executor", executor(cluster), "--no-fallback"]
    there = {"GPUBUILD_EXECUTE_ONLY": "1"}
    project, sizes = tmp_path / "project", cluster.folder / "sizes"
    assert run_module("bench.generate", project, "--files", str(FILES), cwd=ROOT).code == 0
    here = gpubuild("build", "--build-dir", "here", cwd=project, seeded=True)
    assert here.code == 0, here.err
    sizes.write_text("")
    own = ["--build-dir", "there", "--cache-dir", own_cache(tmp_path / "own"), "--json"]
    done = gpubuild("build", *own, *more, cwd=project, env=there)
    assert done.code == 0, done.err
    sent = [int(size) for size in sizes.read_text().split()]
    assert sum(sent) == len(workers(done)) == FILES * 12
    assert 1 < max(sent) <= 8
    assert outputs(project / "here") == outputs(project / "there")
    if FILES < ALL:
        return
    places = ["--build-dir", str(tmp_path / "examples"), "--cache-dir", str(tmp_path / "cache")]
    done = gpubuild("build", "-f", ROOT / "targets.yaml", *places, *more, cwd=tmp_path, env=there)
    assert done.code == 0, done.err
    assert outputs(tmp_path / "examples") == outputs(built_examples() / "build")


def test_where_steps_ran_is_shown(local: Path, cluster: Cluster) -> None:
    trace = local / "trace.json"
    done = remote(local, cluster, "shown", "--trace", str(trace))
    assert done.code == 0, done.err
    ran = {step["id"]: step["worker"] for step in done.document["steps"] if "worker" in step}
    assert "outline/k1.mlir" in ran  # its source has over 1 MB
    lines = (local / "shown" / ".gpubuild" / "builds.jsonl").read_text().splitlines()
    logged = {step["id"]: step["worker"] for step in json.loads(lines[-1])["steps"] if "worker" in step}
    events = json.loads(trace.read_text())["traceEvents"]
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    traced = {e["name"]: lanes[e["tid"]] for e in events if e["ph"] == "X" and "worker" in e["args"]}
    assert ran == logged == traced
    page = gpubuild("report", "-f", "shown.yaml", "--build-dir", "shown", "-o", "page.html", cwd=local)
    assert page.code == 0, page.err
    text = (local / "page.html").read_text()
    assert all(f">{worker}</text>" in text for worker in set(ran.values()))


def test_scons_uses_the_cluster(tmp_path: Path, cluster: Cluster) -> None:
    project = copy_of_the_project(tmp_path)
    script = project / "SConstruct"
    changes = f'GPUBUILD_DIR="#there", GPUBUILD_EXECUTOR="{executor(cluster)}"'
    script.write_text(script.read_text().replace('"targets.yaml"', f'"targets.yaml", {changes}'))
    own = {"GPUBUILD_EXECUTE_ONLY": "1", "GPUBUILD_CACHE_DIR": own_cache(tmp_path / "own")}
    done = scons("-j4", cwd=project, env=own)
    assert done.code == 0, done.out + done.err
    assert "on this machine" not in done.err
    (line,) = (project / "there" / ".gpubuild" / "builds.jsonl").read_text().splitlines()
    assert {step["kind"] for step in json.loads(line)["steps"] if "worker" in step} >= {"compile", "host"}
    assert outputs(project / "there") == outputs(the_project() / "build")


def test_python_uses_the_cluster(local: Path, cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "use.py"
    script.write_text(
        "import sys, gpubuild\n"
        "project = gpubuild.load_project(sys.argv[1])\n"
        "place = dict(build_dir=sys.argv[2], cache_dir=sys.argv[4])\n"
        "done = project.build(**place, executor=sys.argv[3], fallback=False)\n"
        "print(done.ok, *{step.worker for step in done.steps if step.worker})\n"
    )
    done = run_module(
        script.stem, str(local), str(local / "python"), executor(cluster), own_cache(tmp_path / "own"),
        cwd=tmp_path, env={"GPUBUILD_EXECUTE_ONLY": "1"},
    )  # fmt: skip
    assert done.code == 0, done.err
    assert sorted(done.out.split()) == ["True", "w1", "w2"]
    assert outputs(local / "python") == outputs(local / "build")
