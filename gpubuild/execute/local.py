"""Run each job in a process of its own on this machine."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import cast

from gpubuild.errors import GpubuildError, InterruptedBuildError, StepCrashedError, StepError
from gpubuild.execute.channel import (
    Answer,
    Channel,
    ExpectJobs,
    JobEnded,
    JobStarted,
    RunJob,
    channel_pair,
)
from gpubuild.execute.executor import Future, early
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import OutlineParams, Params
from gpubuild.support.fork import interrupts_blocked

_STOP_SECONDS = 10.0


def _run_job(job: Job) -> JobResult:
    from gpubuild.engine.dispatch import run_job

    return run_job(job)


def _preload(part: str) -> None:
    from gpubuild.engine.dispatch import preload

    preload(part)


def _prepare(jobs: int) -> None:
    if contexts := sys.modules.get("gpubuild.engine.ir.contexts"):
        contexts.make_spare_contexts(jobs)


def _part_for(params: Params) -> str:
    from gpubuild.engine.dispatch import part_for

    return part_for(params)


class _Pending:
    """A submitted job. ``failed`` is the error of its first run: this one only locates it."""

    def __init__(self, *, job: Job, future: Future, failed: StepError | None = None) -> None:
        self.job = job
        self.future = future
        self.failed = failed
        self.pid = 0


class ForkerKilledError(StepCrashedError):
    """The process that forks one for each step was killed, so its executor runs nothing more."""


class LocalExecutor:
    """An ``Executor`` with ``workers`` jobs at once, each in a fresh process.

    Make it before threads are started: that is when it forks. A job that crashes, exits, hangs or
    is killed fails alone. When the process that made it ends in any way, every job and every tool
    that a job started is killed. After :meth:`cancel` or :meth:`close` nothing can be submitted.

    ``run``, ``preload`` and ``part_for`` are the engine's; tests give their own.
    """

    def __init__(
        self,
        workers: int,
        *,
        run: Callable[[Job], JobResult] = _run_job,
        preload: Callable[[str], None] = _preload,
        part_for: Callable[[Params], str] = _part_for,
    ) -> None:
        if workers < 1:
            raise ValueError(f"at least one worker is needed, not {workers}")
        self._workers = workers
        self._state = threading.Lock()  # never held while reading or writing the channel
        self._sending = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self._stopping = False
        self._reaped = False
        self._ended = threading.Event()
        self._channel, theirs = channel_pair()
        # A child must not write the parent's buffers a second time.
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        self._forker = _fork_forker(self._channel, theirs, workers, run, preload, part_for)
        self._reader = threading.Thread(target=self._read, name="gpubuild-executor", daemon=True)
        self._reader.start()

    @property
    def workers(self) -> int:
        """See ``Executor``."""
        return self._workers

    def submit(self, job: Job, rank: int = 0) -> Future:
        """See ``Executor``. Jobs beyond the number of workers wait their turn."""
        future = Future()
        if not self._start(_Pending(job=job, future=future)):
            raise RuntimeError("this executor was closed")
        return future

    def _start(self, pending: _Pending) -> bool:
        """Send a job to the forker; false when the executor is stopping."""
        with self._state:
            if self._stopping:
                return False
            number, self._next = self._next, self._next + 1
            self._pending[number] = pending
        try:
            with self._sending:
                self._channel.send(RunJob(number=number, job=pending.job))
        except OSError:
            self._lose(number)
        if self._ended.is_set():
            self._lose(number)
        return True

    def expect(self, params: Iterable[Params]) -> None:
        """See ``Executor``."""
        with suppress(OSError), self._sending:  # its end is noticed elsewhere
            self._channel.send(ExpectJobs(params=tuple(params)))

    def finish(self) -> None:
        """See ``Executor``."""
        with self._state:
            self._stopping = True
        self._channel.finish()

    def cancel(self) -> None:
        """See ``Executor``. Unfinished futures raise ``InterruptedBuildError``."""
        self._stop()

    def close(self) -> None:
        """See ``Executor``. Closing twice is harmless."""
        self._stop()

    def _stop(self) -> None:
        # At the end of the channel the forker kills all jobs and exits. That works even when a signal
        # has interrupted submit in the middle of a message.
        self.finish()
        if not self._next:
            self._kill_by_force()  # it has no children, and may be loading something
        if not self._ended.wait(_STOP_SECONDS):
            self._kill_by_force()
            self._ended.wait(_STOP_SECONDS)
        self._reap_forker()
        if threading.current_thread() is not self._reader:  # it runs the futures' callbacks
            self._reader.join(_STOP_SECONDS)

    def _read(self) -> None:
        """Complete futures as answers come, until the forker has ended. Runs in a thread."""
        try:
            while True:
                message = self._channel.receive()
                if isinstance(message, JobStarted):
                    with self._state:
                        if message.number in self._pending:
                            self._pending[message.number].pid = message.pid
                elif isinstance(message, JobEnded):
                    with self._state:
                        pending = self._pending.pop(message.number, None)
                    if pending is not None:
                        self._settle(pending, message)
        except (EOFError, OSError):
            pass
        finally:
            if not self._stopping:
                self._kill_by_force()
            self._ended.set()
            with suppress(ValueError):
                early.remove(self)  # no build can use it
            with self._state:
                left = list(self._pending)
            for number in left:
                self._lose(number)

    def _settle(self, pending: _Pending, ended: JobEnded) -> None:
        """Complete a future. A failure without a location first runs a second job that finds it."""
        answer = _answer(pending.job, ended)
        if pending.failed is not None:
            if isinstance(answer, StepError) and answer.diagnostics:
                found = (*pending.failed.diagnostics, *answer.diagnostics)
                pending.failed = pending.failed.with_(diagnostics=found)
            answer = pending.failed
        if isinstance(answer, JobResult):
            pending.future.set_result(answer)
            return
        from gpubuild.engine.dispatch import second_look  # the engine is loaded in other processes

        killed = ended.timed_out or ended.exit_code == -signal.SIGKILL  # a second job would be, too
        look = None if pending.failed or killed else second_look(pending.job, answer)
        if look is not None and self._start(
            _Pending(job=look, future=pending.future, failed=cast(StepError, answer))
        ):
            return
        pending.future.set_exception(answer)

    def _lose(self, number: int) -> None:
        """Fail a job whose forker is gone."""
        with self._state:
            pending = self._pending.pop(number, None)
            stopping = self._stopping
        if pending is None:
            return
        if pending.failed is not None:
            pending.future.set_exception(pending.failed)
        elif stopping:
            pending.future.set_exception(InterruptedBuildError("the step was stopped"))
        else:
            pending.future.set_exception(
                ForkerKilledError(
                    "the process that starts compile steps was killed",
                    hint="most likely memory ran out: run fewer steps at once with -j",
                )
            )

    def _kill_by_force(self) -> None:
        """Kill a dead or stuck forker and the process groups that it reported."""
        with self._state:
            groups = [pending.pid for pending in self._pending.values() if pending.pid]
        with suppress(OSError):
            os.kill(self._forker, signal.SIGKILL)
        for pid in groups:
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)

    def _reap_forker(self) -> None:
        if self._reaped:  # its number may belong to another process by now
            return
        self._reaped = True
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            try:
                if os.waitpid(self._forker, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                break
            time.sleep(0.001)
        self._channel.close()


def start_early(workers: int, params: Iterable[Params] = (OutlineParams(),)) -> None:
    """Make the executor of this process's next build, and begin to load what jobs with ``params`` need."""
    close_early()
    executor = LocalExecutor(workers)
    executor.expect(params)
    early.append(executor)


def close_early() -> None:
    """Close the executor that :func:`start_early` made, if no build has taken it."""
    while early:
        early.pop().close()


atexit.register(close_early)


def _fork_forker(
    ours: Channel,
    theirs: Channel,
    workers: int,
    run: Callable[[Job], JobResult],
    preload: Callable[[str], None],
    part_for: Callable[[Params], str],
) -> int:
    with interrupts_blocked() as mask:
        pid = os.fork()
        if pid == 0:
            try:
                from gpubuild.execute.forker import Preload, run_forker  # the build goes on meanwhile

                ours.close()
                parts = Preload(load=preload, prepare=_prepare, part_for=part_for)
                run_forker(theirs, workers, run, parts, mask)
            finally:
                os._exit(1)
    theirs.close()
    return pid


def _answer(job: Job, ended: JobEnded) -> Answer:
    """Return the answer of ``job``; a ``StepCrashedError`` if there is none."""
    if ended.fork_error:
        return StepError(
            f"cannot start a process for the step: {ended.fork_error}",
            hint="run fewer steps at once with -j, or close other programs",
        )
    if ended.exit_code == 0 and ended.answer:
        try:
            answer = pickle.loads(ended.answer)  # noqa: S301 - from our own child, over a nameless pipe
        except Exception as error:
            return StepError(f"internal error: the answer of the step is unreadable: {error}")
        if isinstance(answer, JobResult | GpubuildError):
            return answer
    from gpubuild.execute.crash import crash_error  # compiles patterns

    return crash_error(job, ended.exit_code, timed_out=ended.timed_out)
