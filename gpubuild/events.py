"""Events: what a build tells whoever is watching, while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpubuild.model.result import StepReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanGrew:
    """``total`` steps are known so far: scanning sources comes first and adds compile steps."""

    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A worker has begun the step ``id``."""

    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """A step ended, in whatever way."""

    report: StepReport


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildWarning:
    """Something the user should know that does not stop the build; told once per cause."""

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
