"""What the executor of a cluster knows of its workers. tests/fault has builds on real clusters."""

import asyncio
import re
import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from unit.engine.device_steps import in_child

if find_spec("distributed") is None:
    pytest.skip("Dask is not installed", allow_module_level=True)


def test_a_worker_can_be_used_as_soon_as_it_has_listed_its_tools() -> None:
    """A step that another worker refuses at that moment would else run on this machine."""
    assert in_child(_able_before_and_after) == (set(), {"good"})


def test_only_the_first_steps_wait_for_a_worker() -> None:
    """Those of a build without workers: others run on this machine when they are submitted."""
    assert in_child(_waiting_steps) == [1, 0]


def test_a_step_that_all_workers_refused_runs_here() -> None:
    assert in_child(_refused_by_all) is True


def test_a_result_that_cannot_be_checked_here_is_an_error() -> None:
    """And not a step without an end: Dask's thread, which makes the folder, reports nothing."""
    assert in_child(_unchecked) == "cannot write /absent/1-…: No such file or directory"


class Local:
    """Runs a job as soon as it gets it."""

    workers = 1

    def submit(self, job: object) -> object:
        from gpubuild.execute.executor import Future

        future = Future()
        future.set_result(SimpleNamespace(result=SimpleNamespace(seconds=0.0)))
        return future


def _refused_by_all() -> bool:
    from gpubuild.execute import dask, wire
    from gpubuild.model.project import Execute

    known: dict[str, int] = {}
    dask.DaskExecutor._connect = lambda self: SimpleNamespace(status="running", nthreads=lambda: known)
    dask._empty = lambda folder: None
    executor = dask.DaskExecutor(Local(), Execute(no_worker_seconds=0.5, only=True), print)
    with executor._workers._lock:
        known["w"] = 1
        executor._workers._listed = known
        executor._workers._identities = {"w": {"python": wire.python_tag(), "wire": str(wire.VERSION)}}
        executor._workers._refresh()
    sent = dask._Sent(SimpleNamespace(kind="outline", fingerprints={}, workdir=None), 0)
    sent.refused = {"w"}
    executor._send(sent)
    ended = threading.Event()
    sent.future.when_done(lambda _: ended.set())
    return ended.wait(20)


def _unchecked() -> str:
    from gpubuild.execute import dask
    from gpubuild.model.project import Execute

    dask.DaskExecutor._connect = lambda self: SimpleNamespace(status="running", nthreads=dict)
    executor = dask.DaskExecutor(Local(), Execute(verify=1), print)
    sent = dask._Sent(SimpleNamespace(kind="outline", fingerprints={}, workdir=Path("/absent/1")), 0)
    executor._accept(sent, SimpleNamespace())
    return re.sub("-[0-9a-f]{32}", "-…", str(sent.future.exception(timeout=5)))


def _waiting_steps() -> list[int]:
    from gpubuild.execute import dask, wire
    from gpubuild.model.project import Execute

    wire.travels = lambda job: True
    wire.why_local = lambda job: ""
    wire.input_bytes = lambda job: 0
    dask.DaskExecutor._connect = lambda self: SimpleNamespace(status="running", nthreads=dict)
    dask._empty = lambda folder: None
    executor = dask.DaskExecutor(Local(), Execute(no_worker_seconds=0.5, only=True), print)
    waiting = []
    for _ in range(2):
        future = executor.submit(SimpleNamespace(kind="outline", fingerprints={}, workdir=None))
        waiting.append(len(executor._waiting))
        future.result()
    return waiting


def _able_before_and_after() -> tuple[set[str], set[str]]:
    # Not in the tests' process: Dask changes how errors are pickled.
    from gpubuild.execute import dask_cluster, wire

    class Client:
        """Stands for Dask's: a worker that is asked for its tools lists them."""

        async def run(self, _: object, *, workers: list[str], **options: object) -> dict[str, dict[str, str]]:
            return {worker: {"python": wire.python_tag(), "wire": str(wire.VERSION)} for worker in workers}

    workers = dask_cluster.Workers(Client(), "", lambda: None)
    workers._listed = {"good": 2}
    workers._identities = {"good": None}
    job = SimpleNamespace(fingerprints={})
    before = set(workers.able(job))
    asyncio.run(workers._ask("good"))
    return before, set(workers.able(job))
