"""LazyExecutor: an executor that is made when the first job comes, if ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gpubuild.execute.protocol import Executor
from gpubuild.model.job import Job, JobResult

if TYPE_CHECKING:
    from concurrent.futures import Future  # loads logging; most builds run nothing


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
        return self._workers

    def start(self) -> Executor:
        """The executor itself. Raises ``RuntimeError`` after :meth:`cancel` or :meth:`close`."""
        if self._inner is None:
            if self._stopped:
                raise RuntimeError("this executor was closed")
            self._inner = self._make(self._workers)
        return self._inner

    def submit(self, job: Job) -> Future[JobResult]:
        """See ``Executor``."""
        return self.start().submit(job)

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
