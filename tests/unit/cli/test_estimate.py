"""The estimate of the remaining time of a build."""

from __future__ import annotations

from gpubuild.cli.progress import Estimate
from gpubuild.model.events import Waiting
from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import StepKind


def waiting(**seconds: float | None) -> dict[str, Waiting]:
    return {name: Waiting(id=name, kind=StepKind.COMPILE, seconds=s) for name, s in seconds.items()}


def ended(name: str, status: Status = Status.RAN, seconds: float = 0.0) -> StepReport:
    return StepReport(
        id=name, kind=StepKind.COMPILE, program="", module="", target="", status=status, cost_seconds=seconds
    )


def test_nothing_is_claimed_before_the_plan_is_whole() -> None:
    assert Estimate().left(0.0) is None


def test_work_is_shared_among_workers() -> None:
    estimate = Estimate()
    estimate.grow(waiting(a=4.0, b=6.0, c=2.0), 3)
    assert estimate.left(0.0) == 4.0


def test_no_step_ends_before_the_longest_that_runs() -> None:
    estimate = Estimate()
    estimate.grow(waiting(a=9.0, b=1.0), 4)
    estimate.running["a"] = 10.0
    assert estimate.left(12.0) == 7.0
    estimate.running["b"] = 12.0
    assert estimate.left(30.0) == 0.0, "late, and no reason to claim less than nothing"


def test_what_ended_is_not_left() -> None:
    estimate = Estimate()
    estimate.grow(waiting(a=4.0, b=6.0), 1)
    estimate.running["a"] = 0.0
    estimate.finish(ended("a", seconds=5.0))
    assert estimate.left(5.0) == 6.0


def test_a_step_that_never_ran_takes_as_long_as_others() -> None:
    estimate = Estimate()
    estimate.grow(waiting(a=None, b=None, c=None), 1)
    assert estimate.left(0.0) is None
    estimate.finish(ended("a", seconds=3.0))
    assert estimate.left(0.0) == 6.0


def test_steps_that_the_cache_will_likely_have_count_less() -> None:
    estimate = Estimate()
    estimate.grow(waiting(a=8.0, b=8.0, c=8.0, d=8.0, e=8.0), 1)
    estimate.finish(ended("a", seconds=8.0))
    for name in ("b", "c", "d"):
        estimate.finish(ended(name, Status.HIT_LOCAL, seconds=8.0))
    assert estimate.left(0.0) == 2.0
