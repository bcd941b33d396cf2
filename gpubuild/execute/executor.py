"""Executor: the interface for running jobs, and one that starts with the first job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gpubuild.model.job import Job, JobResult

if TYPE_CHECKING:
    from concurrent.futures import Future  # loads logging; most builds run nothing


class Executor(Protocol):
    """Runs jobs side by side, each isolated from the others and from the caller."""

    @property
    def workers(self) -> int:
        """How many jobs can run at once."""
        ...

    def submit(self, job: Job, rank: int = 0) -> Future[JobResult]:
        """Start a job; of those that wait, one of a higher ``rank`` comes first where there is a choice.

        The future raises ``StepError`` (or ``StepCrashedError``) when it fails.
        """
        ...

    def cancel(self) -> None:
        """Stop all running jobs, with the children of workers, and wait for their end."""
        ...

    def close(self) -> None:
        """Release the workers without waiting. No job may be running."""
        ...


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

    def start(self) -> Executor:
        """Return the executor itself. Raises ``RuntimeError`` after :meth:`cancel` or :meth:`close`."""
        if self._inner is None:
            if self._stopped:
                raise RuntimeError("this executor was closed")
            self._inner = self._make(self._workers)
        return self._inner

    def submit(self, job: Job, rank: int = 0) -> Future[JobResult]:
        """See ``Executor``."""
        return self.start().submit(job, rank)

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
