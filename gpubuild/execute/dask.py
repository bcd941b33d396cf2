"""Run compile steps on the workers of a Dask cluster. Only this module and ``dask_cluster`` import Dask.

A step goes to workers whose Python and tools are the same bytes as here. What cannot be sent, or comes
back without an answer, runs on this machine, unless the user forbids that. The Dask worker itself loads no
compiler: it passes messages (``execute.wire``) to agents (``execute.agent``).
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from gpubuild.errors import (
    GpubuildError,
    InterruptedBuildError,
    NoRoomError,
    StepError,
    StepKilledError,
)
from gpubuild.execute import wire
from gpubuild.execute.agent import Agent, identity
from gpubuild.execute.dask_cluster import NoSchedulerError, connect
from gpubuild.execute.executor import Executor, Future
from gpubuild.model.job import Job, JobResult
from gpubuild.model.project import Execute
from gpubuild.model.step import Params
from gpubuild.support.delete_tree import delete_tree
from gpubuild.support.frozen import replace

_PER_SLOT = 2  # steps in flight, so that a worker never waits for the network
_WATCH_SECONDS = 1.0
_FOLLOW_SECONDS = 0.1

# --- on the worker -----------------------------------------------------------------------------------------

_idle: list[Agent] = []  # agents of this worker that run nothing
_idle_lock = threading.Lock()


def run_message(message: bytes) -> bytes:
    """Run a job in an agent of this worker and return its answer.

    Raises nothing: Dask's clients lose a step whose exception they cannot unpickle.
    """
    try:
        return _run_in_agent(message)
    except Exception as error:
        return wire.pack_refusal(f"{type(error).__name__}: {error}")


def _run_in_agent(message: bytes) -> bytes:
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    with _idle_lock:
        agent = _idle.pop() if _idle else None
    agent = agent or Agent(str(worker.name))
    answer = b""
    try:
        answer = agent.run(message, wanted)
    finally:
        # Tools may have changed under an old agent, which then refuses every job.
        if answer and not wire.is_refusal(answer):
            with _idle_lock:
                _idle.append(agent)
        else:
            agent.stop()
    return answer


# --- on the client -----------------------------------------------------------------------------------------


class _Sent:
    """A step for the cluster: its job, our future, and Dask's once a worker can run it."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job = job
        self.rank = rank
        self.future: Future = Future()
        self.remote: Any = None
        self.workers: list[str] = []  # the addresses that may run it
        self.sent_at = 0.0
        self.stranded_since = 0.0  # no worker can run it


class DaskExecutor:
    """An ``Executor`` in front of ``local``, which runs what cannot be sent.

    ``local`` has forked its processes already: Dask starts threads. Raises ``UsageError`` when Dask is not
    installed, the address is not allowed, or no scheduler answers and ``execute.fallback`` is off.
    """

    def __init__(self, local: Executor, execute: Execute, warn: Callable[[str], None]) -> None:
        self._local = local
        self._execute = execute
        self._warn = warn
        self._lock = threading.Lock()
        self._sent: dict[str, _Sent] = {}
        self._identities: dict[str, Mapping[str, str]] = {}  # by address of a worker
        self._threads: dict[str, int] = {}
        self._local_running = 0
        self._here: Counter[str] = Counter()  # why steps ran here
        self._has_reported_waiting = False  # for the first worker
        self._ended = threading.Event()
        self._client = self._connect()
        if self._client is not None:
            # Two: a scheduler or worker that is stopped must not stop the clock.
            for loop in (self._follow, self._time_out):
                threading.Thread(target=loop, name="gpubuild-dask", daemon=True).start()

    @property
    def workers(self) -> int:
        """See ``Executor``. Changes when workers come and go."""
        slots = sum(self._threads.values())
        if self._execute.jobs:
            slots = min(slots, self._execute.jobs)
        return self._local.workers + _PER_SLOT * slots

    def submit(self, job: Job, rank: int = 0) -> Future:
        """See ``Executor``."""
        if not wire.travels(job):
            return self._run_here(job, "")
        if self._client is None:
            return self._run_here(job, "the scheduler cannot be reached")
        if reason := wire.why_local(job):
            return self._run_here(job, reason)
        able = self._able(job)
        if self._threads and not able:
            return self._run_here(job, "no worker has the same tools")
        if self._is_full() and not self._execute.only and self._local_running < self._local.workers:
            return self._run_here(job, "")
        sent = _Sent(job, rank)
        self._send(sent, able)
        return sent.future

    def expect(self, params: Iterable[Params]) -> None:
        """See ``Executor``."""
        if self._client is None:
            self._local.expect(params)

    def finish(self) -> None:
        """See ``Executor``."""
        self._local.finish()

    def cancel(self) -> None:
        """See ``Executor``."""
        self._end()
        self._local.cancel()

    def close(self) -> None:
        """See ``Executor``. Reports why steps ran on this machine."""
        self._end()
        for reason, count in self._here.items():
            self._warn(f"{count} step{'s' if count > 1 else ''} ran on this machine: {reason}")
        self._here.clear()
        self._local.close()

    def _connect(self) -> Any:  # noqa: ANN401 - Dask's client, or None
        try:
            return connect(self._execute)
        except NoSchedulerError as error:
            if not self._execute.fallback:
                raise error.with_(hint="start it, or leave --no-fallback out") from error
            self._warn(f"{error.message}; all steps run on this machine")
            return None

    def _follow(self) -> None:
        """Follow which workers there are, and send them waiting steps."""
        while not self._ended.wait(_FOLLOW_SECONDS):
            try:
                if self._client.status not in ("running", "connecting"):
                    raise OSError
                known = self._client.scheduler_info(n_workers=-1)["workers"]
            except Exception:
                known = {}
            with self._lock:
                new = [address for address in known if address not in self._identities]
                self._identities = {address: self._identities.get(address, {}) for address in known}
                self._threads = {
                    address: int(about["nthreads"])
                    for address, about in known.items()
                    if self._is_like_us(self._identities[address])
                }
            for address in new:
                threading.Thread(target=self._ask, args=(address,), daemon=True).start()
            self._send_waiting()

    def _ask(self, address: str) -> None:
        """Ask a new worker for its tools."""
        with suppress(Exception):  # a worker that is gone again
            found = self._client.run(identity, workers=[address], on_error="ignore")
            with self._lock:
                if address in self._identities:
                    self._identities[address] = found.get(address, {})

    def _send_waiting(self) -> None:
        """Send steps that no worker has, and again those whose workers are all gone."""
        with self._lock:
            waiting = [
                (key, sent)
                for key, sent in self._sent.items()
                if not any(address in self._threads for address in sent.workers)
            ]
        for key, sent in waiting:
            if (able := self._able(sent.job)) and self._take(key):
                with suppress(Exception):
                    sent.remote.cancel()
                self._send(sent, able)

    def _is_like_us(self, found: Mapping[str, str]) -> bool:
        return found.get("python") == wire.python_tag() and found.get("wire") == str(wire.VERSION)

    def _able(self, job: Job) -> list[str]:
        with self._lock:
            return [
                address
                for address in self._threads
                if all(self._identities[address].get(n) == f for n, f in job.fingerprints.items())
            ]

    def _is_full(self) -> bool:
        with self._lock:
            return len(self._sent) >= sum(self._threads.values())

    def _run_here(self, job: Job, reason: str) -> Future:
        if reason and not self._execute.fallback:
            failed: Future = Future()
            failed.set_exception(
                StepError(
                    f"no worker ran the step: {reason}",
                    hint="leave --no-fallback out to run such steps on this machine",
                )
            )
            return failed
        with self._lock:
            self._local_running += 1
            if reason:
                self._here[reason] += 1
        future = self._local.submit(job)
        future.when_done(self._note_end)
        return future

    def _note_end(self, _: Future) -> None:
        with self._lock:
            self._local_running -= 1

    def _send(self, sent: _Sent, able: list[str]) -> None:
        """Send a step to the workers ``able``; without any it waits for one."""
        key = f"gpubuild-{uuid.uuid4().hex}"
        sent.workers = able
        sent.sent_at = time.monotonic() if able else 0.0
        with self._lock:
            self._sent[key] = sent
        if not able:
            return
        try:
            sent.remote = self._client.submit(
                run_message,
                wire.pack_job(sent.job),
                key=key,
                workers=able,
                priority=sent.rank,
                pure=False,
            )
        except GpubuildError as error:
            if self._take(key):
                sent.future.set_exception(error)
        except Exception as error:
            if self._take(key):
                self._instead(sent, f"the scheduler cannot be reached ({type(error).__name__})")
        else:
            sent.remote.add_done_callback(lambda done: self._settle(key, done))

    def _take(self, key: str) -> _Sent | None:
        """Return a step to the one caller that completes it."""
        with self._lock:
            return self._sent.pop(key, None)

    def _settle(self, key: str, remote: Any) -> None:  # noqa: ANN401 - a future of Dask
        """Complete our future. Runs in a thread of Dask's."""
        sent = self._take(key)
        if sent is None:
            return
        try:
            if remote.status == "finished":
                answer = wire.unpack_answer(cast(bytes, remote.result(timeout=30)), sent.job)
                if isinstance(answer, JobResult):
                    if random.random() < self._execute.verify:  # noqa: S311
                        self._verify(sent, answer)
                    else:
                        sent.future.set_result(answer)
                    return
                if not _may_be_the_machine(answer):
                    sent.future.set_exception(answer)
                    return
                reason = f"a worker failed: {answer.message}"
            elif remote.status == "error":
                reason = f"a worker was lost ({type(remote.exception(timeout=30)).__name__})"
            else:
                reason = "the scheduler was lost"
        except wire.WireError as error:
            reason = f"a worker's answer was refused: {error}"
        except Exception as error:
            reason = f"a worker's answer was lost ({type(error).__name__})"
        self._instead(sent, reason)

    def _verify(self, sent: _Sent, answer: JobResult) -> None:
        """Make the result of a worker here, too, and compare."""
        workdir = sent.job.workdir / "verify"
        workdir.mkdir()

        def compare(done: Future) -> None:
            error = done.exception()
            differing = [] if error else _differing(answer, done.result())
            if error is None and not differing:
                sent.future.set_result(answer)
                return
            sent.future.set_exception(
                StepError(
                    f"worker {answer.worker} made other bytes than this machine: "
                    f"{', '.join(differing) or str(error)}",
                    hint="do not use this worker, and delete what it stored in shared caches: `gpubuild "
                    "cache clear`; its memory or processor may be damaged",
                )
            )

        self._run_here(replace(sent.job, workdir=workdir), "").when_done(compare)

    def _instead(self, sent: _Sent, reason: str) -> None:
        """Run a step here that no worker has run."""
        if self._ended.is_set():
            sent.future.set_exception(InterruptedBuildError("the step was stopped"))
            return
        _empty(sent.job.workdir)

        def copy(done: Future) -> None:
            if (error := done.exception()) is not None:
                sent.future.set_exception(error)
            else:
                sent.future.set_result(done.result())

        try:
            self._run_here(sent.job, reason).when_done(copy)
        except RuntimeError:  # closed meanwhile
            sent.future.set_exception(InterruptedBuildError("the step was stopped"))

    def _time_out(self) -> None:
        """Take back steps that no worker can run any more, or that have no answer."""
        while not self._ended.wait(_WATCH_SECONDS):
            now = time.monotonic()
            with self._lock:
                waiting, has_workers = list(self._sent.items()), bool(self._threads)
            if waiting and not has_workers and not self._has_reported_waiting:
                self._has_reported_waiting = True
                self._warn(f"{self._execute.shown} has no workers yet: waiting")
            for key, sent in waiting:
                if self._able(sent.job):
                    sent.stranded_since = 0.0
                else:
                    sent.stranded_since = sent.stranded_since or now
                if sent.stranded_since and now - sent.stranded_since >= self._execute.no_worker_seconds:
                    self._take_back(key, sent, "no worker with the same tools is left")
                elif sent.sent_at and now - sent.sent_at >= self._execute.step_seconds:
                    self._take_back(key, sent, f"no answer after {self._execute.step_seconds:g} s")

    def _take_back(self, key: str, sent: _Sent, reason: str) -> None:
        if self._take(key):
            with suppress(Exception):
                sent.remote.cancel()
            self._instead(sent, reason)

    def _end(self) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        with self._lock:
            left, self._sent = list(self._sent.values()), {}
        for sent in left:
            with suppress(Exception):
                sent.remote.cancel()
            sent.future.set_exception(InterruptedBuildError("the step was stopped"))
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=2)


def _may_be_the_machine(error: GpubuildError) -> bool:
    """Whether a step may have failed because of the worker: for memory, room or a signal."""
    return isinstance(error, StepKilledError | NoRoomError)


def _differing(one: JobResult, other: JobResult) -> list[str]:
    first, second = ({blob.name: blob.digest for blob in done.result.blobs} for done in (one, other))
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))


def _empty(folder: Path) -> None:
    for entry in list(folder.iterdir()):
        delete_tree(entry)
