"""Executor: the interface for running jobs, and one that starts with the first job."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import Params

_settled = threading.Condition()  # of all futures


class Future:
    """The result of a submitted job, when there is one. ``concurrent.futures`` loads logging: 6 ms."""

    def __init__(self) -> None:
        self._result: JobResult | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], None]] = []

    def done(self) -> bool:
        """Whether the job has ended."""
        return self._result is not None or self._error is not None

    def result(self, timeout: float | None = None) -> JobResult:
        """Wait for the result of the job, or raise its error. Raises ``TimeoutError``."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        assert self._result is not None  # noqa: S101 - the job has ended
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end of the job and return its error, if any. Raises ``TimeoutError``."""
        with _settled:
            if not _settled.wait_for(self.done, timeout):
                raise TimeoutError
        return self._error

    def set_result(self, result: JobResult) -> None:
        """End the job."""
        self._settle(result, None)

    def set_exception(self, error: BaseException) -> None:
        """End the job with an error."""
        self._settle(None, error)

    def when_done(self, callback: Callable[[Future], None]) -> None:
        """Call ``callback`` with this future when the job has ended, in any thread."""
        with _settled:
            if not self.done():
                self._callbacks.append(callback)
                return
        callback(self)

    def _settle(self, result: JobResult | None, error: BaseException | None) -> None:
        with _settled:
            self._result, self._error = result, error
            callbacks, self._callbacks = self._callbacks, []
            _settled.notify_all()
        for callback in callbacks:
            callback(self)


class Executor(Protocol):
    """Runs jobs side by side, each isolated from the others and from the caller."""

    @property
    def workers(self) -> int:
        """How many jobs can run at once."""
        ...

    def submit(self, job: Job, rank: int = 0) -> Future:
        """Start a job; of those that wait, one of a higher ``rank`` comes first where there is a choice.

        The future raises ``StepError`` (or ``StepCrashedError``) when it fails.
        """
        ...

    def expect(self, params: Iterable[Params]) -> None:
        """Prepare for jobs with such parameters, which may be submitted soon."""
        ...

    def finish(self) -> None:
        """Begin to release the workers: no job is running, and none follows."""
        ...

    def cancel(self) -> None:
        """Stop all running jobs, with the children of workers, and wait for their end."""
        ...

    def close(self) -> None:
        """Release the workers. No job may be running."""
        ...


early: list[Executor] = []  # one that was made before the build that uses it


def take_early(workers: int) -> Executor | None:
    """Return the executor in ``early``, if it has so many ``workers``."""
    return early.pop() if early and early[-1].workers == workers else None


class LazyExecutor:
    """An ``Executor`` in front of the one that ``make(workers)`` returns.

    A local executor forks when it is made: until then the process must have no other threads.
    :meth:`start` makes it at once.
    """

    def __init__(self, workers: int, make: Callable[[int], Executor]) -> None:
        self._workers = workers
        self._make = make
        self._inner: Executor | None = None
        self._stopped = False

    @property
    def workers(self) -> int:
        """See ``Executor``."""
        return self._inner.workers if self._inner else self._workers

    def use_early(self) -> None:
        """Start with the executor in ``early``, if it suits."""
        self._inner = take_early(self._workers)

    def start(self) -> Executor:
        """Return the executor itself. Raises ``RuntimeError`` after :meth:`cancel` or :meth:`close`."""
        if self._stopped:
            raise RuntimeError("this executor was closed")
        if self._inner is None:
            self._inner = self._make(self._workers)
        return self._inner

    def submit(self, job: Job, rank: int = 0) -> Future:
        """See ``Executor``."""
        return self.start().submit(job, rank)

    def expect(self, params: Iterable[Params]) -> None:
        """See ``Executor``."""
        if self._inner is not None:
            self._inner.expect(params)

    def finish(self) -> None:
        """See ``Executor``."""
        self._stopped = True
        if self._inner is not None:
            self._inner.finish()

    def cancel(self) -> None:
        """See ``Executor``."""
        self._stopped = True
        if self._inner is not None:
            self._inner.cancel()

    def close(self) -> None:
        """See ``Executor``."""
        self._stopped = True
        if self._inner is not None:
            self._inner.close()
