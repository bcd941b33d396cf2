"""Goals of bench/cpu_kernels.py: which ratios must hold, and whether they did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from cpu_threads import Turn, asked, medians
from report import Goal, goal_table

Times = Mapping[str, Sequence[float]]
TWO = ", 2 threads"


def goal_lines(found: Mapping[str, Times], turns: Mapping[str, Sequence[Turn]]) -> list[str]:
    """A table of promises, as Markdown."""
    goals = (goal for title, times in found.items() for goal in _goals(title, times, turns[title]))
    return goal_table(goals).splitlines()


def _goals(title: str, times: Times, turns: Sequence[Turn]) -> Iterator[Goal]:
    found = {name: statistics.median(seconds) for name, seconds in times.items()}

    def ratio(what: str, ours: str, peers: Sequence[str], limit: float) -> Iterator[Goal]:
        there = [found[p] for p in peers if p in found]
        if there and ours in found:
            yield Goal(f"{title}: {what}", found[ours] / min(there), limit, "x")

    yield from ratio("ours / PoCL", "ours", ["PoCL"], 1.0)
    yield from ratio("ours / PoCL, 2 threads", f"ours{TWO}", [f"PoCL{TWO}"], 1.0)
    if "tiled" in title:
        yield from ratio("ours / hand-fissioned C", "ours", ["gcc items", "clang items"], 1.2)
    if "vecadd" in title or "reduction" in title:
        yield from ratio("ours / gcc", "ours", ["gcc plain"], 1.05)
        yield from ratio("ours / gcc, 2 threads each", f"ours{TWO}", [f"gcc plain{TWO}"], 1.05)
    if title.startswith("exp"):
        yield from ratio("ours / gcc -ffast-math", "ours", ["gcc-fast plain"], 1.1)
        yield from ratio(
            "ours / gcc -ffast-math, 2 threads each", f"ours{TWO}", [f"gcc-fast plain{TWO}"], 1.1
        )
    most = round(1 / asked(turns), 3)
    yield Goal(f"{title}: ours, 2 threads / 1 thread", 1 / medians(turns)[1], most, "x")
