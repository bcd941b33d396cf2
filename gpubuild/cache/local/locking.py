"""Locking: excluding other processes, on file systems that can."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, wait_seconds: float) -> Iterator[bool]:
    """Hold the lock file ``path``. Yields False when another process held it all that time.

    Where there are no locks to be had, yields True: whoever calls this must stay right without.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    try:
        yield _take(handle, time.monotonic() + wait_seconds)
    finally:
        os.close(handle)


def _take(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)
        except OSError:
            return True
        else:
            return True
