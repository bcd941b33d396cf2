"""Supervision: what ends a tool when the process that runs it is killed.

An unwatched process has the kernel end the tool: each tool asks for that between fork and
exec. Such a fork copies the page tables of a process that has loaded LLVM, and after it every page
that either of the two writes: 5 to 8 ms per tool.

The process of a job leads a process group, which its parent kills when the job ends, in whatever
way. What is left is the death of that parent, of which the kernel can tell the job: with SIGKILL
while it computes, when it may be deaf to anything else, and with a signal that it passes on to its
group while it waits for a tool.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_TOLD = signal.SIGUSR1  # the parent has died
_leaders: set[int] = set()  # this process, once it has called supervised_from_now


def die_with_parent(told_by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, told_by, 0, 0, 0)


def supervised_from_now() -> None:
    """Called by the leader of a process group that its parent will kill; main thread only."""
    signal.signal(_TOLD, _end_group)
    die_with_parent()
    _leaders.add(os.getpid())


def is_supervised() -> bool:
    """Whether another process ends what this process starts. False in its forks."""
    return os.getpid() in _leaders


@contextmanager
def group_dies_with_parent() -> Iterator[None]:
    """While a supervised process waits for a tool: its parent's death ends the whole group."""
    die_with_parent(_TOLD)
    try:
        yield
    finally:
        die_with_parent()


def _end_group(_number: int, _frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)
