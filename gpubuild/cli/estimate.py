"""Estimate: how long the rest of a build will take, as far as earlier builds and this one tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpubuild.events import Waiting
from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import StepKind

_ENOUGH = 3  # steps that ran in this build, before kinds that have not run are judged by the others
_COUNTED = (Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE, Status.UP_TO_DATE)


class Estimate:
    """Keeps account of a build's steps. Times are the caller's clock, in seconds.

    A step is expected to take what it took last time, else what steps of its kind took in this
    build. That a step still to come will run at all is as likely as it was for those of its kind.
    """

    def __init__(self) -> None:
        self._workers = 1
        self._waiting: dict[str, Waiting] = {}
        self._running: dict[str, float] = {}
        self._took: dict[StepKind, list[float]] = {}  # of steps that ran
        self._settled: dict[StepKind, int] = {}  # how many ended well, ran or not

    def grow(self, waiting: Mapping[str, Waiting], workers: int) -> None:
        """These steps are still to come; ``workers`` run at once."""
        self._waiting = dict(waiting)
        self._workers = max(workers, 1)

    def start(self, step_id: str, now: float) -> None:
        """A worker has begun a step."""
        self._running[step_id] = now

    def finish(self, report: StepReport) -> None:
        """A step has ended."""
        self._waiting.pop(report.id, None)
        self._running.pop(report.id, None)
        if report.status in _COUNTED:
            self._settled[report.kind] = self._settled.get(report.kind, 0) + 1
            if report.status is Status.RAN:
                self._took.setdefault(report.kind, []).append(report.cost_seconds)

    def left(self, now: float) -> float | None:
        """Seconds until the build will have ended; ``None`` where too little is known."""
        if not self._waiting:
            return None
        work, longest = 0.0, 0.0
        for waiting in tuple(self._waiting.values()):
            seconds = self._expected(waiting)
            if seconds is None:
                return None
            since = self._running.get(waiting.id)
            if since is None:
                work += seconds * self._likelihood(waiting.kind)
            else:
                rest = max(seconds - (now - since), 0.0)
                work += rest
                longest = max(longest, rest)
        return max(work / self._workers, longest)

    def _expected(self, waiting: Waiting) -> float | None:
        if waiting.seconds is not None:
            return waiting.seconds
        if took := self._took.get(waiting.kind):
            return _mean(took)
        everything = [seconds for some in tuple(self._took.values()) for seconds in some]
        return _mean(everything) if len(everything) >= _ENOUGH else None

    def _likelihood(self, kind: StepKind) -> float:
        settled = self._settled.get(kind, 0)
        return len(self._took.get(kind, ())) / settled if settled else 1.0


def _mean(seconds: Sequence[float]) -> float:
    return sum(seconds) / len(seconds)  # importing statistics takes longer than most estimates
