"""Forks that Ctrl-C cannot disturb."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_blocked() -> Iterator[set[int]]:
    """Block SIGINT and SIGTERM around a fork, and yield the signals that the child has to block instead.

    Python ignores exceptions in functions that it calls at a fork: a KeyboardInterrupt there is lost.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield {int(number) for number in mask}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
