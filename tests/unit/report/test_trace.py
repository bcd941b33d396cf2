"""Trace: lanes and times of steps."""

import json
from pathlib import Path

import pytest
from unit.projects import step_report

from gpubuild.errors import UsageError
from gpubuild.model.events import Event, Silent, StepFinished, StepStarted
from gpubuild.model.job import StageTime
from gpubuild.model.result import Status
from gpubuild.report.trace import Tracer
from gpubuild.support.frozen import replace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def finished(name: str, status: Status = Status.RAN, seconds: float = 0.5) -> StepFinished:
    return StepFinished(report=step_report(name, status, seconds=seconds))


def test_steps_side_by_side_are_in_lanes_of_their_own() -> None:
    seen = []

    class Recorder(Silent):
        def on_event(self, event) -> None:
            seen.append(event)

    tracer = Tracer(Recorder(), clock=Clock())  # zero at 101
    events = [StepStarted(id="a"), StepStarted(id="b"), finished("a"), StepStarted(id="c")]
    events += [finished("c"), finished("b"), finished("d", Status.UP_TO_DATE)]
    for event in events:
        tracer.on_event(event)
    assert seen == events
    spans = {e["name"]: e for e in tracer.document()["traceEvents"] if e["ph"] == "X"}
    assert {n: (e["tid"], e["ts"], e["dur"]) for n, e in spans.items()} == {
        "a": (1, 1_000_000, 2_000_000),
        "b": (2, 2_000_000, 4_000_000),
        "c": (1, 4_000_000, 1_000_000),
        "d": (0, 6_500_000, 500_000),
    }
    assert spans["d"]["args"]["status"] == "up-to-date"
    names = {e["tid"]: e["args"]["name"] for e in tracer.document()["traceEvents"] if e["ph"] == "M"}
    assert names == {0: "look-ups", 1: "worker 1", 2: "worker 2"}


def test_steps_that_came_back_together_are_shown_one_after_the_other() -> None:
    tracer = Tracer(Silent(), clock=iter([100.0, *[101.0] * 3, *[110.0] * 3]).__next__)
    for name in "abc":
        tracer.on_event(StepStarted(id=name))
    for name, waited in (("c", 0.0), ("b", 1.0), ("a", 2.0)):
        stages = (StageTime(stage="s", seconds=1.0),)
        report = replace(finished(name).report, worker="w1", stages=stages, waited_seconds=waited)
        tracer.on_event(StepFinished(report=report))
    spans = {e["name"]: e for e in tracer.document()["traceEvents"] if e["ph"] == "X"}
    assert {n: (e["ts"], e["dur"]) for n, e in spans.items()} == {
        "a": (7_000_000, 1_000_000),
        "b": (8_000_000, 1_000_000),
        "c": (9_000_000, 1_000_000),
    }
    assert len({e["tid"] for e in spans.values()}) == 1


def test_each_worker_of_a_cluster_has_a_lane() -> None:
    def remote(name: str, worker: str) -> StepFinished:
        report = finished(name).report
        stages = (StageTime(stage="s", seconds=1.0),)
        return StepFinished(report=replace(report, worker=worker, stages=stages))

    tracer = Tracer(Silent(), clock=Clock())  # zero at 101
    events: list[Event] = [StepStarted(id=name) for name in "abc"]  # to 104
    events += [remote("a", "w2"), remote("b", "w1"), finished("c"), StepStarted(id="d"), remote("d", "w2")]
    for event in events:
        tracer.on_event(event)
    spans = {e["name"]: e for e in tracer.document()["traceEvents"] if e["ph"] == "X"}
    names = {e["tid"]: e["args"]["name"] for e in tracer.document()["traceEvents"] if e["ph"] == "M"}
    found = {n: (names[e["tid"]], e["ts"], e["dur"]) for n, e in spans.items()}
    assert found == {
        "a": ("w2", 3_000_000, 1_000_000),  # without its wait for the worker
        "b": ("w1", 4_000_000, 1_000_000),
        "c": ("worker 3", 3_000_000, 3_000_000),
        "d": ("w2", 7_000_000, 1_000_000),
    }
    assert spans["a"]["tid"] == spans["d"]["tid"]
    assert spans["a"]["args"]["worker"] == "w2"


def test_file(tmp_path: Path) -> None:
    tracer = Tracer(Silent())
    tracer.on_event(finished("a"))
    tracer.write(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text()) == tracer.document()
    with pytest.raises(UsageError, match="cannot write the trace"):
        tracer.write(tmp_path / "missing" / "trace.json")
