"""Transfers: a few threads that move data while the build goes on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Transfers:
    """Runs pieces of work in up to ``workers`` threads, which start when there is something to do.

    Daemon threads, unlike those of ``concurrent.futures``: a server that does not answer must not
    keep a finished build from exiting. ``at_end`` is called in each thread before it stops.
    """

    def __init__(self, workers: int, at_end: Callable[[], None]) -> None:
        self._workers = workers
        self._at_end = at_end
        self._waiting: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._busy = 0
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` soon. Its exception, if any, is in the future."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        with self._changed:
            if self._closed:
                future.cancel()
                return future
            self._waiting.append(run)
            if self._idle < len(self._waiting) and self._threads < self._workers:
                self._threads += 1
                threading.Thread(target=self._loop, name="gpubuild-remote", daemon=True).start()
            self._changed.notify()
        return future

    def drain(self, seconds: float) -> int:
        """Wait until nothing is left to do; returns how much is, when the time is over."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while left := len(self._waiting) + self._busy:
                if not self._changed.wait(timeout=max(0.0, deadline - time.monotonic())):
                    return left
        return 0

    def close(self) -> None:
        """Begin nothing more; do not wait for what is under way."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def _loop(self) -> None:
        try:
            while True:
                with self._changed:
                    while not self._waiting:
                        if self._closed:
                            return
                        self._idle += 1
                        self._changed.wait()
                        self._idle -= 1
                    run = self._waiting.popleft()
                    self._busy += 1
                try:
                    run()
                finally:
                    with self._changed:
                        self._busy -= 1
                        self._changed.notify_all()
        finally:
            self._at_end()
