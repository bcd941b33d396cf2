"""Explanation: what a step depends on, now and when it was last brought up to date."""

from __future__ import annotations

from gpubuild.build.reasons import Row, rows
from gpubuild.build.state import BuildState
from gpubuild.build.step_runner import StepRunner
from gpubuild.model.result import Status
from gpubuild.model.step import Step
from gpubuild.plan.plan import Plan
from gpubuild.support.frozen import frozen, replace


@frozen
class Explanation:
    """A step's key, part by part, as it is now and as it was before the last change of it."""

    step: str
    status: Status  # up-to-date or would-run
    state: str  # the same in words
    why: str  # it was last brought up to date; empty when it never was
    rows: tuple[Row, ...]


def explain_step(runner: StepRunner, state: BuildState, plan: Plan, step: Step) -> Explanation:
    """Compare what ``step`` depends on with what ``state`` knows; nothing is run.

    Raises ``StepError`` when an input is not there, ``ToolNotFoundError``.
    """
    for step_id in plan.order_before(step.id):
        earlier = runner.would_run(runner.prepare(plan.steps[step_id]))
        if earlier.status is not Status.UP_TO_DATE:
            first = f"{step_id} comes first ({earlier.reason})"
            return replace(_explain_alone(runner, state, step), status=Status.WOULD_RUN, state=first)
    return _explain_alone(runner, state, step)


def _explain_alone(runner: StepRunner, state: BuildState, step: Step) -> Explanation:
    record = state.record(step.id)
    if any(i.producer and not i.path.exists() for i in step.inputs):
        words = "what it needs is to be made first" if record else "first build"
        why = record.why if record else ""
        return Explanation(step=step.id, status=Status.WOULD_RUN, state=words, why=why, rows=())
    prepared = runner.prepare(step)
    report = runner.would_run(prepared)
    versions = {**prepared.versions}

    def version(fingerprint: str) -> str:
        return versions.get(fingerprint) or state.version(fingerprint)

    up_to_date = report.status is Status.UP_TO_DATE
    before = {**record.parts, **(record.before if up_to_date else {})} if record else None
    if before is not None:
        before = {name: value for name, value in before.items() if value}
    return Explanation(
        step=step.id,
        status=report.status,
        state="up to date" if up_to_date else f"would be looked at again: {report.reason}",
        why=record.why if record else "",
        rows=rows(before, prepared.parts, version),
    )
