"""Jobs of a distributed build on this machine. One that was killed for memory elsewhere runs alone."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial

from gpubuild.errors import InterruptedBuildError
from gpubuild.execute.executor import Executor, Future
from gpubuild.model.job import Job


class LocalQueue:
    """Runs jobs in ``executor``, as many at once as it has workers."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.workers = executor.workers
        self._lock = threading.Lock()
        self._queue: deque[tuple[Job, Future, bool]] = deque()
        self._running = 0
        self._runs_alone = False
        self._has_ended = False

    @property
    def is_idle(self) -> bool:
        """Whether a job would start at once."""
        return self._running < self.workers and not self._queue and not self._runs_alone

    def run(self, job: Job, future: Future | None = None, *, alone: bool = False) -> Future:
        """Run a job, and end ``future`` with it."""
        future = future or Future()
        with self._lock:
            self._queue.append((job, future, alone))
        self._start()
        return future

    def end(self) -> None:
        """Start nothing more."""
        with self._lock:
            self._has_ended = True
        self._start()

    def _start(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    return
                job, future, alone = self._queue[0]
                if not self._has_ended and (self._runs_alone or (alone and self._running)):
                    return
                self._queue.popleft()
                self._running += 1
                self._runs_alone = alone
            try:
                if self._has_ended:
                    raise RuntimeError
                self.executor.submit(job).when_done(partial(self._note_end, future))
            except RuntimeError:  # closed
                future.set_exception(InterruptedBuildError("the step was stopped"))

    def _note_end(self, future: Future, done: Future) -> None:
        with self._lock:
            self._running -= 1
            self._runs_alone = False
        self._start()
        if (error := done.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(done.result())
