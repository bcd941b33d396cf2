"""Progress: the lines that a build shows."""

import io
import time

import pytest
from unit.projects import build_report, step_report

from gpubuild.cli.console import Console
from gpubuild.cli.progress import LiveView, PlainView, make_view, summary_line
from gpubuild.errors import StepError
from gpubuild.model.events import BuildWarning, PlanGrew, StepFinished, StepStarted, Waiting
from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import StepKind


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(status: Status, name: str = "saxpy/link", **more) -> StepReport:
    return step_report(name, status, **{"kind": StepKind.LINK, "program": "saxpy", "seconds": 0.25} | more)


def plain(*events, explain: bool = False, to_err: bool = False, **options) -> tuple[str, str]:
    console = Console(out=io.StringIO(), err=io.StringIO(), **options)
    with PlainView(console, to_err=to_err, explain=explain) as view:
        for event in events:
            view.on_event(event)
    return console.out.getvalue(), console.err.getvalue()


ALL = [StepFinished(report=report(status, reason="because")) for status in Status]


def listed(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines()}


def test_plain_lines_are_for_steps_that_did_something() -> None:
    out, err = plain(PlanGrew(total=9), StepStarted(id="saxpy/link"), *ALL)
    assert listed(out) == {"ran", "failed", "would-run", "would-hit"}
    assert "0.25 s" in out
    assert "because" not in out
    assert err == ""
    assert plain(*ALL, to_err=True)[0] == "" and listed(plain(*ALL, to_err=True)[1]) == listed(out)


def test_verbose_and_explain_list_every_step() -> None:
    assert listed(plain(*ALL, verbose=True)[0]) == set(Status)
    assert listed(plain(*ALL, explain=True, quiet=True)[0]) == set(Status)
    assert plain(*ALL, explain=True)[0].count("(because)") == len(Status)


def test_quiet_shows_errors_and_warnings_only() -> None:
    broken = StepFinished(report=report(Status.FAILED, error=StepError("it broke")))
    out, err = plain(*ALL, broken, *[BuildWarning(message="careful")] * 3, quiet=True)
    assert out == ""
    assert err == "error: it broke\nwarning: careful\n"


def test_only_a_terminal_gets_a_live_view() -> None:
    def view(**streams):
        options = {"out": io.StringIO(), "err": io.StringIO()} | streams
        return lambda to_err, **more: make_view(Console(**options, **more), to_err=to_err, explain=False)

    assert isinstance(view(out=Terminal())(False), LiveView)
    assert isinstance(view(out=Terminal())(True), PlainView)
    assert isinstance(view(err=Terminal())(True), LiveView)
    assert isinstance(view(out=Terminal())(False, quiet=True), PlainView)


def test_live_view_shows_running_steps_and_leaves_errors_behind() -> None:
    console = Console(out=Terminal(), err=io.StringIO())
    with LiveView(console, to_err=False, explain=False):
        pass
    assert console.out.getvalue() == "", "nothing is drawn before the first event"
    with LiveView(console, to_err=False, explain=False) as view:
        view.on_event(PlanGrew(total=3))
        view.on_event(StepStarted(id="saxpy/compile/[bold]/sm_60"))
        assert "saxpy/compile/[bold]/sm_60" in view._render().plain
        view.on_event(StepFinished(report=report(Status.RAN, "saxpy/compile/[bold]/sm_60")))
        view.on_event(StepFinished(report=report(Status.FAILED, error=StepError("it broke"))))
        assert "] 2/3  " in view._render().plain
        assert "1 ran, 1 failed" in view._render().plain
    assert "failed" in console.out.getvalue()
    assert console.err.getvalue() == "error: it broke\n"


def test_live_view_keeps_the_end_of_an_id_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    with LiveView(Console(out=Terminal(), err=io.StringIO()), to_err=False, explain=False) as view:
        view._estimate.running["saxpy/compile/saxpy_kernels/sm_60"] = time.monotonic()
        (_, row) = view._render().plain.splitlines()
        assert row.endswith("  …axpy_kernels/sm_60")
        assert len(row) == 30


def test_summary() -> None:
    steps = (*[report(Status.RAN)] * 3, *[report(Status.UP_TO_DATE)] * 9)
    assert summary_line(build_report(*steps, seconds=0.42)) == "12 steps: 3 ran, 9 up to date in 0.4 s"
    assert summary_line(build_report(report(Status.HIT_LOCAL))) == "1 step: 1 from the cache in 0.0 s"
    assert summary_line(build_report()) == "0 steps: nothing to do in 0.0 s"


def test_summary_tells_what_the_cache_has_saved() -> None:
    """What steps took that ran, or that nobody had to look up, was not saved by it."""
    costly = [report(status, cost_seconds=1.5) for status in Status]
    assert summary_line(build_report(*costly)).endswith(" in 0.0 s, 3.0 s saved")


def test_many_steps_with_one_reason() -> None:
    """Where each has reasons of its own, or nothing was there before, there is nothing to tell."""
    first = [report(Status.RAN, reason="first build")] * 30
    own = [report(Status.RAN, reason=f"a{n}.c changed") for n in range(30)]
    shared = [report(Status.RAN, reason=f"a{n}.c changed; ptxas changed: 12.8 → 12.9") for n in range(20)]
    assert build_report(*first, *own, *shared[1:]).note == ""
    assert build_report(*first, *own, *shared).note == "20 steps ran: ptxas changed: 12.8 → 12.9"


def waiting(*names: str, seconds: float | None = None) -> dict[str, Waiting]:
    return {name: Waiting(id=name, kind=StepKind.LINK, seconds=seconds) for name in names}


def test_live_view_says_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("gpubuild.cli.progress.time.monotonic", lambda: now)
    console = Console(out=Terminal(), err=io.StringIO())
    with LiveView(console, to_err=False, explain=False) as view:
        view.on_event(PlanGrew(total=2, waiting=waiting("a", "b", seconds=20.0), workers=2))
        view.on_event(StepStarted(id="a"))
        now = 105.0
        assert view._render().plain.splitlines() == [
            "[#####---------------] 0/2  5.0 s, about 15 s left  ",
            "    5.0 s  a",
        ]
        view.on_event(PlanGrew(total=3, waiting=waiting("c"), workers=2))
        assert "left" not in view._render().plain, "nobody knows how long c takes"
