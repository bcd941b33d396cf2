"""What a second thread is worth, next to what it could be worth: the same kernel in two programs at once.

Where two CPUs are threads of one core, or share what memory gives, no run time can make two threads twice as
fast as one. So two processes with one thread each run the kernel on data of their own at the same time: what
they do together, next to what one does alone, is what the machine gives. Those who share a launch have to
wake, to divide the work and to wait for the last one; they must not lose more than a little by that.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SHARE = 0.93  # of what the machine gives two programs
WORTH = 1.8  # times as fast with a second thread: more is not asked for
_LONG_SECONDS = 0.04  # that a loop takes, at least
_SOON_SECONDS = 0.005  # until a loop starts: by then all have heard of it


class Process(Protocol):
    """A process of cpu_worker.py."""

    def tell(self, command: str) -> None:
        """Have it do something."""

    def answer(self, command: str) -> Any:
        """Wait for its answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Seconds of a run: of one thread alone, of each of two programs at once, of two threads together."""

    alone: float
    apart: float
    together: float

    @property
    def machine(self) -> float:
        """How much more two programs do than one."""
        return 2 * self.alone / self.apart

    @property
    def ours(self) -> float:
        """How much faster two threads are than one."""
        return self.alone / self.together


def take_turn(one: Process, other: Process, two: Process, seconds: float) -> Turn:
    """Measure all three, one after the other; a run takes about ``seconds``."""
    count = max(1, math.ceil(_LONG_SECONDS / seconds))
    return Turn(
        alone=_loop([one], count),
        apart=_loop([one, other], count),
        together=_loop([two], count),
    )


def _loop(processes: Sequence[Process], count: int) -> float:
    command = f"loop ours {count} {time.perf_counter() + _SOON_SECONDS}"
    for process in processes:
        process.tell(command)
    return statistics.fmean([process.answer(command) for process in processes])


def medians(turns: Sequence[Turn]) -> tuple[float, float]:
    """What a second thread is worth to the machine and to us."""
    return statistics.median(t.machine for t in turns), statistics.median(t.ours for t in turns)


def asked(turns: Sequence[Turn]) -> float:
    """What a second thread has to be worth."""
    return min(WORTH, SHARE * medians(turns)[0])


def thread_lines(found: Mapping[str, Sequence[Turn]]) -> list[str]:
    """A table of Markdown."""
    lines = [
        "## What a second thread is worth",
        "",
        "Two programs: two processes of one thread each, which run the kernel at the same time, as many "
        "times as fast as one alone. Two threads: of one launch. Loops of launches, in turns; medians.",
        "",
        "| | two programs | two threads | asked for |",
        "|---|---:|---:|---:|",
    ]
    for title, turns in found.items():
        machine, ours = medians(turns)
        lines.append(f"| {title} | {machine:.2f} | {ours:.2f} | {asked(turns):.2f} |")
    return lines
