"""Report: what bench/incremental.py found, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peers import Shape
from timing import Samples, machine


@dataclass(frozen=True, slots=True)
class Goal:
    """A promise: ``measured`` must not be over ``limit``."""

    what: str
    measured: float
    limit: float
    unit: str

    @property
    def ok(self) -> bool:
        return self.measured <= self.limit


def scenario_table(shape: Shape, found: Mapping[str, Mapping[str, Samples]], peers: Sequence[str]) -> str:
    """One row a scenario: times of all contenders, what gpubuild's steps did, ratios."""
    lines = [
        f"## {len(shape.nodes()):,} steps ({shape})",
        "",
        f"| | gpubuild ms | its steps | {' | '.join(f'{p} ms' for p in peers)} "
        f"| {' | '.join(f'/ {p}' for p in peers)} |",
        "|---|---:|---|" + "---:|" * (2 * len(peers)),
    ]
    for scenario, times in found.items():
        ours = times.get("gpubuild")
        if ours is None:
            continue
        theirs = [times.get(p) for p in peers]
        cells = [scenario, ours.text(), ours.did]
        cells += [t.text() if t else "-" for t in theirs]
        cells += [f"{ours.median / t.median:.2f}" if t else "-" for t in theirs]
        lines.append(f"| {' | '.join(cells)} |")
    ran = {name: times for name, times in found.items() if any(p in times for p in peers)}
    lines += ["", "Nodes that the peers made, of the same graph:", ""]
    for peer in peers:
        did = ", ".join(
            f"{name} {times[peer].did.removesuffix(' ran')}" for name, times in ran.items() if peer in times
        )
        lines.append(f"- {peer}: {did}")
    if floor := found.get("null", {}).get("python -c ''"):
        lines += ["", f"`python -c ''`, the floor of every Python program here: {floor.text()} ms."]
    return "\n".join(lines) + "\n"


def goal_table(goals: Iterable[Goal]) -> str:
    """Promises and whether they are kept."""
    lines = ["## Goals", "", "| goal | measured | at most | |", "|---|---:|---:|---|"]
    for goal in goals:
        verdict = "pass" if goal.ok else "**fail**"
        lines.append(
            f"| {goal.what} | {goal.measured:.3g} {goal.unit} | {goal.limit:g} {goal.unit} | {verdict} |"
        )
    return "\n".join(lines) + "\n"


def results_text(
    found: Mapping[Shape, Mapping[str, Mapping[str, Samples]]],
    peers: Sequence[str],
    versions: Sequence[str],
    plans: Mapping[Shape, Mapping[str, float]],
    ccache: Mapping[str, Samples],
    goals: Iterable[Goal],
) -> str:
    """The whole result file."""
    parts = [
        f"# bench/incremental.py\n\n{machine()}; {', '.join(versions)}. Whole processes, milliseconds: "
        "median (min-max).\nThe peers build the same graph with `cp` for every action: in rows in which "
        "gpubuild compiles, the ratio\ncompares compilers with `cp`.\n",
        goal_table(goals),
        *(scenario_table(shape, times, peers) for shape, times in found.items()),
    ]
    if ccache:
        rows = "\n".join(f"| {name} | {samples.text()} |" for name, samples in ccache.items())
        parts.append(f"## ccache\n\n| | ms |\n|---|---:|\n{rows}\n")
    rows = "\n".join(
        f"| {plan['steps']:,} | {plan['edges']:,} | {plan['load_seconds']:.3f} | {plan['seconds']:.2f} "
        f"| {1e6 * plan['seconds'] / plan['steps']:.0f} | {plan['peak_mb']:.0f} |"
        for plan in plans.values()
    )
    parts.append(
        "## Planning\n\n| steps | edges | of it targets.yaml s | s | µs/step | peak MB |\n"
        f"|---:|---:|---:|---:|---:|---:|\n{rows}\n"
    )
    return "\n".join(parts)
