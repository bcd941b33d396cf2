"""Events: what a build reports to its listeners while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gpubuild.model.result import StepReport
from gpubuild.model.step import StepKind
from gpubuild.support.frozen import field, frozen


@frozen
class Waiting:
    """A step still to come, and what it took when it last ran here; ``None`` when it never has.

    ``program`` and ``module`` are empty for steps that are of none.
    """

    id: str
    kind: StepKind
    seconds: float | None
    program: str = ""
    module: str = ""


@frozen
class PlanGrew:
    """``total`` steps are known so far: scanning sources comes first and adds compile steps.

    ``waiting`` are those still to come, by id, when the plan is whole; ``workers`` run at once.
    """

    total: int
    waiting: Mapping[str, Waiting] = field(default_factory=dict)
    workers: int = 1


@frozen
class StepStarted:
    """A worker has begun the step ``id``."""

    id: str


@frozen
class StepFinished:
    """A step ended, in whatever way."""

    report: StepReport


@frozen
class BuildWarning:
    """Something the user should know that does not stop the build; reported once per cause."""

    message: str


Event = PlanGrew | StepStarted | StepFinished | BuildWarning


class Listener(Protocol):
    """Receives events in the build's own thread, in order. Must be quick and must not raise."""

    def on_event(self, event: Event) -> None:
        """Take note of ``event``."""
        ...


class Silent:
    """A listener that ignores everything."""

    def on_event(self, event: Event) -> None:
        """Ignore ``event``."""
