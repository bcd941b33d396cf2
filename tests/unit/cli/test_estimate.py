"""The estimate of the remaining time of a build."""

import itertools

import pytest
from unit.projects import step_report

from gpubuild.cli.progress import Estimate
from gpubuild.model.events import Waiting
from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import StepKind
from gpubuild.support.frozen import replace


def waiting(**seconds: float | None) -> dict[str, Waiting]:
    return {name: Waiting(id=name, kind=StepKind.COMPILE, seconds=s) for name, s in seconds.items()}


def ended(name: str, status: Status = Status.RAN, seconds: float = 0.0) -> StepReport:
    return step_report(name, status, kind=StepKind.COMPILE, cost_seconds=seconds)


def planned(workers: int, **seconds: float | None) -> Estimate:
    estimate = Estimate()
    estimate.grow(waiting(**seconds), workers)
    return estimate


@pytest.mark.parametrize(
    ("known", "took", "left"),
    [
        ({"a": 4.0, "b": 6.0}, 4.0, 6.0),
        ({"a": 10.0, "b": 6.0}, 30.0, 12.0),  # twice as long: ten seconds are too few to be sure
        ({"a": None, "b": None, "c": None}, 3.0, 6.0),  # steps that never ran take as long as others
    ],
)
def test_what_ended_is_not_left(known: dict[str, float | None], took: float, left: float) -> None:
    estimate = planned(1, **known)
    assert (estimate.left(0.0) is None) == (None in known.values())
    estimate.running["a"] = 0.0
    estimate.finish(ended("a", seconds=took))
    assert estimate.left(took) == left


def test_steps_that_the_cache_will_likely_have_count_less() -> None:
    estimate = planned(1, a=8.0, b=8.0, c=8.0, d=8.0, e=8.0)
    estimate.finish(ended("a", seconds=8.0))
    for name in ("b", "c", "d"):
        estimate.finish(ended(name, Status.HIT_LOCAL, seconds=8.0))
    assert estimate.left(0.0) == 2.0


def test_a_step_that_never_ran_takes_as_long_as_others_of_its_kind() -> None:
    estimate = Estimate()
    link = Waiting(id="d", kind=StepKind.LINK, seconds=None)
    estimate.grow({**waiting(a=None, b=None), "c": link, "d": link}, 1)
    estimate.finish(ended("a", seconds=4.0))
    assert estimate.left(0.0) == 12.0
    estimate.finish(replace(ended("c", seconds=1.0), kind=StepKind.LINK))
    assert estimate.left(0.0) == 5.0


STEPS = 12


@pytest.mark.parametrize(
    ("known", "took", "most_corrections"),
    [
        pytest.param(4.0, [4.0] * STEPS, 0, id="as last time"),
        pytest.param(4.0, [4.4, 3.6] * (STEPS // 2), 0, id="a little more, a little less"),
        pytest.param(4.0, [1.0, 7.0] * (STEPS // 2), 10, id="uneven"),
        pytest.param(4.0, [12.0] * STEPS, 11, id="three times as long"),
        pytest.param(None, [4.0] * STEPS, 0, id="first build"),
    ],
)
def test_the_time_shown_counts_down(known: float | None, took: list[float], most_corrections: int) -> None:
    """One worker; a look at the display every 0.1 s, as of a terminal."""
    estimate, now = Estimate(), 0.0
    estimate.grow(waiting(**{f"s{n}": known for n in range(STEPS)}), 1)
    shown, bars = [], []
    for number, seconds in enumerate(took):
        estimate.running[f"s{number}"] = begun = now
        while now < begun + seconds:
            left = estimate.shown(now)
            shown.append((now, left))
            bars.append(estimate.bar(now, left).count("#"))
            now = round(now + 0.1, 1)
        estimate.finish(ended(f"s{number}", seconds=seconds))
    assert bars == sorted(bars), "the bar never moves back"
    assert all(left is None for at, left in shown if known is None and at < took[0])
    pairs = [(a, b) for a, b in itertools.pairwise(shown) if a[1] is not None]
    jumps = [b[1] for a, b in pairs if b[1] is None or abs(a[1] - b[1] - (b[0] - a[0])) > 1e-6 < b[1]]
    assert len(jumps) <= most_corrections
    assert shown[-1][1] is not None
    assert shown[-1][1] <= 2.5
    assert estimate.bar(now, 0.0) == "#" * 20
