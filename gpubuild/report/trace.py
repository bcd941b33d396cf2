"""The steps of a build on a timeline, in the Trace Event Format of Chrome and Perfetto.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpubuild.errors import UsageError
from gpubuild.model.events import Event, Listener, StepFinished, StepStarted
from gpubuild.model.result import StepReport
from gpubuild.support.files import UserFile

_FIRST_REMOTE = 10_000


class Tracer:
    """Record when each step began and ended, and pass events on to ``then``.

    Steps that run at the same time have different lanes, and each worker of a cluster has lanes of its
    own. Steps that were only looked up have lane 0.
    """

    def __init__(self, then: Listener, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._then = then
        self._clock = clock
        self._zero = clock()
        self._started: dict[str, tuple[float, int]] = {}
        self._events: list[dict[str, Any]] = []  # of this machine
        self._remote: list[tuple[float, float, StepReport]] = []  # of a cluster: begin and end

    def on_event(self, event: Event) -> None:
        """See ``Listener``."""
        if isinstance(event, StepStarted):
            taken = {lane for _, lane in self._started.values()}
            lane = next(n for n in range(1, len(taken) + 2) if n not in taken)
            self._started[event.id] = (self._clock(), lane)
        elif isinstance(event, StepFinished):
            self._finish(event.report)
        self._then.on_event(event)

    def document(self) -> dict[str, Any]:
        """Return the trace; times are microseconds since the build began."""
        events = self._events + self._remote_events()
        names = {
            int(e["tid"]): e["args"].get("worker") or (f"worker {e['tid']}" if e["tid"] else "look-ups")
            for e in events
        }
        named = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": lane, "args": {"name": name}}
            for lane, name in sorted(names.items())
        ]
        return {"displayTimeUnit": "ms", "traceEvents": named + events}

    def _remote_events(self) -> list[dict[str, Any]]:
        """Return the steps of a cluster, in lanes above those of this machine."""
        from gpubuild.report.facts import free_lane

        lanes: dict[str, list[float]] = {}
        found = []
        for begin, end, report in sorted(self._remote, key=lambda one: (one[2].worker, one[0])):
            lane, shown = free_lane(lanes.setdefault(report.worker, []), begin, end)
            before = sum(len(taken) for worker, taken in lanes.items() if worker != report.worker)
            found.append(self._event(shown, end, _FIRST_REMOTE + before + lane, report))
        return found

    def write(self, path: Path) -> None:
        """Write the trace. Raises ``UsageError`` when the file cannot be written."""
        try:
            with UserFile(path) as name:
                Path(name).write_text(json.dumps(self.document()) + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write the trace {path}: {error.strerror}") from error

    def _finish(self, report: StepReport) -> None:
        end = self._clock()
        begin, lane = self._started.pop(report.id, (max(end - report.seconds, self._zero), 0))
        if report.worker:  # it also waited for the worker
            took = sum(stage.seconds for stage in report.stages)
            end = max(end - report.waited_seconds, begin)
            self._remote.append((max(begin, end - took) if took else begin, end, report))
        else:
            self._events.append(self._event(begin, end, lane, report))

    def _event(self, begin: float, end: float, lane: int, report: StepReport) -> dict[str, Any]:
        return {
            "ph": "X",
            "name": report.id,
            "cat": report.kind,
            "pid": 1,
            "tid": lane,
            "ts": round((begin - self._zero) * 1e6),
            "dur": max(round((end - begin) * 1e6), 1),
            "args": {"status": report.status, "reason": report.reason, "key": report.key}
            | ({"worker": report.worker} if report.worker else {}),
        }
