"""Result: how each step of a build ended, with provenance, and the build as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from gpubuild.errors import GpubuildError
from gpubuild.model.digest import Digest
from gpubuild.model.job import StageTime
from gpubuild.model.step import ActionResult, Step, StepKind
from gpubuild.support.frozen import field, frozen

STOPPED = "the build stopped after a failure"  # why a step was skipped that needs nothing that failed
_NOTABLE_DROP = 0.2  # of the hit rate
_MANY_STEPS = 20  # to run because of an edit; fewer are what whoever edits expects


class Status(StrEnum):
    """Where a step's outputs came from, or why there are none."""

    RAN = "ran"
    HIT_LOCAL = "hit-local"
    HIT_REMOTE = "hit-remote"
    UP_TO_DATE = "up-to-date"
    FAILED = "failed"
    SKIPPED = "skipped"  # a step it needs failed, or the build stopped before it
    WOULD_RUN = "would-run"  # dry run
    WOULD_HIT = "would-hit"  # dry run: the cache has it


@frozen
class StepReport:
    """One step of one build, as shown to the user and in ``--json``."""

    id: str
    kind: StepKind
    program: str
    module: str
    target: str
    status: Status
    reason: str = ""
    key: Digest | None = None
    seconds: float = 0.0
    outputs: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()
    error: GpubuildError | None = field(default=None, compare=False)
    stages: tuple[StageTime, ...] = field(default=(), compare=False)  # of a step that ran
    cost_seconds: float = field(default=0.0, compare=False)  # of a worker's time, whenever it ran

    @classmethod
    def of(
        cls,
        step: Step,
        status: Status,
        reason: str = "",
        *,
        key: Digest | None = None,
        result: ActionResult | None = None,
        seconds: float = 0.0,
        error: GpubuildError | None = None,
    ) -> StepReport:
        """How ``step`` ended; ``result`` is what it has made now or made before, if anything."""
        return cls(
            id=step.id,
            kind=step.kind,
            program=step.program,
            module=step.module,
            target=step.target,
            status=status,
            reason=reason,
            key=key,
            seconds=seconds,
            outputs=tuple(step.output_path(blob.name) for blob in result.blobs) if result else (),
            warnings=result.warnings if result else (),
            error=error,
            cost_seconds=result.seconds if result else 0.0,
        )


@frozen
class CacheUse:
    """How many of the steps were ``served`` without running, and how it was last time.

    ``previous_rate`` (0 to 1) is of the project's last build that had to look anything up;
    ``cause`` says what is different; ``expected``: nothing but the sources.
    """

    served: int
    steps: int
    previous_rate: float | None = None
    cause: str = ""
    expected: bool = False

    @property
    def rate(self) -> float:
        """The part that was served, 0 to 1."""
        return self.served / self.steps if self.steps else 1.0

    @property
    def note(self) -> str:
        """A remark when much less was served than last time, else empty."""
        if self.previous_rate is None or self.previous_rate - self.rate < _NOTABLE_DROP:
            return ""
        if self.expected and self.steps - self.served < _MANY_STEPS:
            return ""
        return f"hit rate {self.rate:.0%}, last build {self.previous_rate:.0%}: {self.cause}"


@frozen
class BuildReport:
    """All steps in the order of the plan. ``executables`` maps a program to its file."""

    steps: tuple[StepReport, ...]
    executables: dict[str, Path]
    seconds: float
    warnings: tuple[str, ...] = ()
    cache: CacheUse | None = None
    links: Mapping[str, Step] = field(default_factory=dict)  # of programs that were not to be linked

    @property
    def failed(self) -> tuple[StepReport, ...]:
        """The steps that failed on their own."""
        return tuple(s for s in self.steps if s.status is Status.FAILED)

    @property
    def stopped(self) -> tuple[StepReport, ...]:
        """The steps that were not tried although they need nothing that failed."""
        return tuple(s for s in self.steps if s.status is Status.SKIPPED and s.reason == STOPPED)

    @property
    def saved_seconds(self) -> float:
        """What the steps that the cache served took when they ran, added up."""
        hits = (Status.HIT_LOCAL, Status.HIT_REMOTE)
        return sum((step.cost_seconds for step in self.steps if step.status in hits), 0.0)

    @property
    def ok(self) -> bool:
        """Whether every step that was asked for has its outputs."""
        return not any(s.status in (Status.FAILED, Status.SKIPPED) for s in self.steps)
