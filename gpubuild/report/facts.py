"""Facts for reports, computed from the build log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpubuild.build.log import History, LoggedBuild, LoggedStep
from gpubuild.support.frozen import frozen
from gpubuild.targets.registry import kinds, vendor
from gpubuild.targets.vendor import Occupancy

_HITS = ("hit-local", "hit-remote")


@frozen
class Bar:
    """A step on the timeline, in the ``lane`` of a worker; ``critical`` if it is on the critical path."""

    step: LoggedStep
    began: float
    lane: int
    critical: bool


@frozen
class Value:
    """A number after the last build and before it; ``None`` where unknown."""

    now: int | None
    before: int | None

    @property
    def change(self) -> int | None:
        """The difference; ``None`` if there is none, or nothing to compare with."""
        if self.now is None or self.before is None or self.now == self.before:
            return None
        return self.now - self.before


@frozen
class KernelRow:
    """A kernel for one target. ``state`` is ``new``, ``gone`` or empty."""

    program: str
    module: str
    target: str
    name: str
    state: str
    registers: Value
    spill_bytes: Value
    shared_bytes: Value
    object_bytes: Value  # of the object that contains the kernel, with its other kernels
    occupancy: Value  # percent, in workgroups of the usual size
    limit: str  # of the occupancy
    tier: str
    tier_before: str
    tier_reason: str

    @property
    def changed(self) -> bool:
        """Whether the last build changed any of these values."""
        values = (self.registers, self.spill_bytes, self.shared_bytes, self.object_bytes)
        other_tier = bool(self.tier_before) and self.tier != self.tier_before
        return bool(self.state) or other_tier or any(value.change is not None for value in values)


def bars(build: LoggedBuild) -> list[Bar]:
    """Return the steps that ran, in lanes in which no two overlap.

    Each worker of a cluster has lanes of its own, after those of this machine.
    """
    critical = {step.id for step in critical_path(build)}
    lanes: dict[str, list[float]] = {}  # by worker: when each of its lanes becomes free
    found = []
    for step in sorted(build.steps, key=lambda s: (s.began, s.ended, s.id)):
        if step.status in {"ran", "failed"}:
            most = 0 if step.worker else build.workers
            lane, began = free_lane(lanes.setdefault(step.worker, []), step.began, step.ended, most)
            found.append((step, began, lane))
    first, before = dict[str, int](), 0
    for worker in sorted(lanes):
        first[worker], before = before, before + len(lanes[worker])
    return [
        Bar(step=step, began=began, lane=first[step.worker] + lane, critical=step.id in critical)
        for step, began, lane in found
    ]


def free_lane(lanes: list[float], began: float, ended: float, most: int = 0) -> tuple[int, float]:
    """Return the lane of a step and when it begins there; set in ``lanes`` when the lane becomes free.

    A busy build notes the end of a step a little late, so the next one may seem to begin before one of
    ``most`` lanes is free. It is then shown to begin when one is. Without ``most`` this is done only if
    the lane becomes free in the first half of the step.
    """
    lane = next((n for n, end in enumerate(lanes) if end <= began + 1e-9), len(lanes))
    if lane == len(lanes) >= max(most, 1):
        first = min(range(len(lanes)), key=lambda n: lanes[n])
        if lanes[first] < (ended if most else (began + ended) / 2):
            lane, began = first, lanes[first]
    if lane == len(lanes):
        lanes.append(0.0)
    lanes[lane] = ended
    return lane, began


def critical_path(build: LoggedBuild) -> list[LoggedStep]:
    """Return the longest chain of dependent steps: with any number of workers a build takes as long.

    Empty for a damaged log with a cycle.
    """
    import networkx as nx

    steps = {step.id: step for step in build.steps}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for step in build.steps:
        # Only edges have weights. Each edge to a step has the weight of the step, so steps without inputs
        # have an edge from nowhere.
        for need in ("", *(need for need in step.needs if need in steps)):
            graph.add_edge(need, step.id, weight=_took(step))
    if not nx.is_directed_acyclic_graph(graph):
        return []
    return [steps[step_id] for step_id in nx.dag_longest_path(graph)[1:]]


def saved_seconds(build: LoggedBuild) -> float:
    """Return the run times of the steps that came from a cache, less the time to fetch them."""
    return sum(max(s.cost_seconds - _took(s), 0.0) for s in build.steps if s.status in _HITS)


def counts(build: LoggedBuild) -> dict[str, int]:
    """Return the number of steps by status."""
    found = Counter(step.status for step in build.steps)
    found["up-to-date"] += build.up_to_date
    return {status: number for status, number in found.items() if number}


def kernel_rows(history: History) -> list[KernelRow]:
    """Return a row for each kernel and target in the log. Modules that the last build changed come first."""
    now, before = _states(history)
    rows: list[KernelRow] = []
    for step in _alive(now):
        if step.kind != "compile":
            continue
        old = before.get(step.id)
        were = {str(k.get("name")): k for k in old.kernels} if old else {}
        are = {str(k.get("name")): k for k in step.kernels}
        for name in dict.fromkeys((*are, *were)):
            is_now, was = are.get(name, {}), were.get(name, {})
            occupied = _occupancy(step, is_now)
            occupied_before = _occupancy(old, was) if old else None
            state = "gone" if name not in are else "new" if old is not None and name not in were else ""
            rows.append(
                KernelRow(
                    program=step.program,
                    module=step.module,
                    target=step.target,
                    name=name,
                    state=state,
                    registers=_value(is_now, was, "registers"),
                    spill_bytes=_value(is_now, was, "spill_bytes"),
                    shared_bytes=_value(is_now, was, "shared_bytes"),
                    object_bytes=_size(step, old, "object"),
                    occupancy=Value(
                        now=occupied.percent if occupied else None,
                        before=occupied_before.percent if occupied_before else None,
                    ),
                    limit=occupied.limit if occupied else "",
                    tier=str(is_now.get("tier") or ""),
                    tier_before=str(was.get("tier") or ""),
                    tier_reason=str(is_now.get("tier_reason") or ""),
                )
            )
    changed = {(row.program, row.module) for row in rows if row.changed}
    return sorted(rows, key=lambda row: (row.program, row.module) not in changed)


def size_rows(history: History) -> list[tuple[str, Value]]:
    """Return the program and the bytes of every executable in the log."""
    now, before = _states(history)
    return [
        (step.program, _size(step, before.get(step.id), name))
        for step in _alive(now)
        if step.kind == "link"
        for name in step.sizes
    ]


def _states(history: History) -> tuple[dict[str, LoggedStep], dict[str, LoggedStep]]:
    """Return the last entry of each step that made something: now, and before the last build."""
    now = dict(history.base)
    before = dict(now)
    for build in history.builds:
        before = dict(now)
        now.update({step.id: step for step in build.steps if step.sizes})
    return now, before


def _alive(steps: Mapping[str, LoggedStep]) -> list[LoggedStep]:
    """Return the steps that executables depend on, without those of removed modules and targets.

    A step that gets or loses an input runs again, so the last ``needs`` of each are right. Programs
    without an executable in the log, for example after a failure, keep all their steps.
    """
    todo = [step.id for step in steps.values() if step.kind == "link"]
    linked = {steps[name].program for name in todo}
    seen = set(todo)
    while todo:
        step = steps.get(todo.pop())
        new = set(step.needs) - seen if step else set[str]()
        seen |= new
        todo += new
    return [steps[n] for n in sorted(steps) if n in seen or steps[n].program not in linked]


def _value(now: Mapping[str, Any], before: Mapping[str, Any], field: str) -> Value:
    def number(kernel: Mapping[str, Any]) -> int | None:
        value = kernel.get(field)
        return value if isinstance(value, int) else None

    return Value(now=number(now), before=number(before))


def _occupancy(step: LoggedStep, kernel: Mapping[str, Any]) -> Occupancy | None:
    kind, chip = step.device
    registers, shared = kernel.get("registers"), kernel.get("shared_bytes") or 0
    if kind not in kinds() or not (isinstance(registers, int) and registers and isinstance(shared, int)):
        return None
    return vendor(kind).occupancy(chip, registers, shared)


def _size(now: LoggedStep, before: LoggedStep | None, name: str) -> Value:
    return Value(now=now.sizes.get(name), before=before.sizes.get(name) if before else None)


def _took(step: LoggedStep) -> float:
    return max(step.ended - step.began, 0.0)
