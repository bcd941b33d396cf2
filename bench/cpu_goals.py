"""Goals of bench/cpu_kernels.py: which ratios must hold, and whether they did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from report import Goal, goal_table

Times = Mapping[str, Sequence[float]]
TWO = ", 2 threads"
WORTH = 1.8  # times as fast with a second thread


def goal_lines(found: Mapping[str, Times]) -> list[str]:
    """A table of promises, as Markdown."""
    return goal_table(goal for title, times in found.items() for goal in _goals(title, times)).splitlines()


def _goals(title: str, times: Times) -> Iterator[Goal]:
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}

    def ratio(what: str, ours: str, peers: Sequence[str], limit: float) -> Iterator[Goal]:
        there = [medians[p] for p in peers if p in medians]
        if there and ours in medians:
            yield Goal(f"{title}: {what}", medians[ours] / min(there), limit, "x")

    yield from ratio("ours / PoCL", "ours", ["PoCL"], 1.0)
    yield from ratio("ours / PoCL, 2 threads", f"ours{TWO}", [f"PoCL{TWO}"], 1.0)
    if "tiled" in title:
        yield from ratio("ours / hand-fissioned C", "ours", ["gcc items", "clang items"], 1.2)
    if "vecadd" in title or "reduction" in title:
        yield from ratio("ours / gcc", "ours", ["gcc plain"], 1.05)
    if title.startswith("exp"):
        yield from ratio("ours / gcc -ffast-math", "ours", ["gcc-fast plain"], 1.1)
    peer = "gcc-fast plain" if title.startswith("exp") else "gcc plain"
    if f"{peer}{TWO}" in medians and medians[f"{peer}{TWO}"] > medians[peer] / WORTH:
        # Memory does not allow it: not to gcc's loop either.
        yield from ratio("ours / gcc, 2 threads each", f"ours{TWO}", [f"{peer}{TWO}"], 1.05)
    else:
        yield from ratio("ours, 2 threads / 1 thread", f"ours{TWO}", ["ours"], 1 / WORTH)
