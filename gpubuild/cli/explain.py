"""``gpubuild explain STEP``: the inputs of a step, now and last time, and why it last ran."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from gpubuild.cli.console import Console, paint
from gpubuild.cli.json_document import dump
from gpubuild.cli.options import build_request, load
from gpubuild.errors import UsageError
from gpubuild.support.text import did_you_mean, nearest, one_line

if TYPE_CHECKING:
    from gpubuild.build.reasons import Explanation

_LISTED = 8  # steps that a short form matches


def execute(options: argparse.Namespace) -> int:
    """Run the command. Only scans sources that changed, since the plan depends on them."""
    from gpubuild.build.opening import open_builder

    console: Console = options.console
    project = load(options)
    request = build_request(options, project.root)
    with open_builder(project, options.settings, request, threads=False) as builder:
        plan = builder.scan()
        found = builder.explain(plan, plan.steps[find_step(options.step, plan.steps)])
    console.print(
        dump(to_json(found)) if options.json else render(found, color=console.color_out, all_rows=options.all)
    )
    return 0


def find_step(name: str, known: Collection[str]) -> str:
    """Return the id that ``name`` is, or of which it has some parts in order.

    ``app/k/sm_90`` is short for ``app/compile/k/sm_90``. Raises ``UsageError`` for none or several.
    """
    if name in known:
        return name
    parts = [part.removeprefix("@") for part in name.split("/")]
    matching = [step for step in known if _is_within(parts, step.split("/"))]
    # `saxpy/k` matches each of its compile steps: prefer ids that end with the last part.
    closest = [step for step in matching if step.split("/")[-1] == parts[-1]] or matching
    if len(closest) == 1:
        return closest[0]
    if closest:
        listed = ", ".join(closest[:_LISTED]) + ", …" * (len(closest) > _LISTED)
        raise UsageError(f"{name} matches {len(closest)} steps: {listed}", hint="write more of the step's id")
    # The last part of a short form distinguishes steps: `app/sm_9` is not similar to `app/host`.
    similar = nearest(parts[-1], {step.split("/")[-1]: None for step in known})
    corrected = [s for s in known if similar and _is_within([*parts[:-1], *similar], s.split("/"))]
    meant = did_you_mean(name, corrected or known, cutoff=0.0 if corrected else 0.4)
    raise UsageError(
        f"there is no step {name!r}" + (f" ({meant})" if meant else ""),
        hint="`gpubuild build -n --explain` lists all steps",
    )


def render(found: Explanation, *, color: bool, all_rows: bool) -> str:
    """Return a headline and a table; unchanged rows only with ``all_rows`` or when nothing changed."""
    lines = [f"{paint(one_line(found.step), 'bold', on=color)}: {found.state}"]
    if found.why:
        lines.append(f"  last brought up to date because: {found.why}")
    listed = [row for row in found.rows if row.changed or all_rows]
    if not listed:
        listed = list(found.rows)
    if not listed:  # its inputs have not been built
        return "\n".join(lines)
    rows = [(one_line(row.name), one_line(row.before), one_line(row.now)) for row in listed]
    cells = [("", "last time", "now"), *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(2)]
    changed = {one_line(row.name) for row in found.rows if row.changed}
    for name, before, now in cells:
        mark = "*" if name in changed else " "
        line = f"{mark} {name:{widths[0]}}  {before:{widths[1]}}  {now}".rstrip()
        lines.append(paint(line, "yellow", on=color) if name in changed else line)
    hidden = len(found.rows) - len(listed)
    if hidden:
        lines.append(f"  ({hidden} more are unchanged; --all lists them)")
    return "\n".join(lines)


def to_json(found: Explanation) -> dict[str, Any]:
    """Return the document of ``--json``."""
    return {
        "schema": 1,
        "step": found.step,
        "status": found.status.value,
        "state": found.state,
        "why": found.why,
        "parts": [
            {"name": row.name, "before": row.before or None, "now": row.now or None, "changed": row.changed}
            for row in found.rows
        ],
    }


def _is_within(wanted: Iterable[str], parts: Iterable[str]) -> bool:
    """Return whether ``wanted`` is a subsequence of ``parts``."""
    rest = iter(parts)
    return all(any(part == other for other in rest) for part in wanted)
