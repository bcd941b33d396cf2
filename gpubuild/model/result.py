"""Result: how each step of a build ended, with provenance, and the build as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from gpubuild.errors import GpubuildError
from gpubuild.model.digest import Digest
from gpubuild.model.job import StageTime
from gpubuild.model.step import ActionResult, Output, Step, StepKind
from gpubuild.support.frozen import field, frozen
from gpubuild.support.text import html_table

STOPPED = "the build stopped after a failure"  # why a step was skipped that needs nothing that failed
_MANY_STEPS = 20  # to run for one reason; fewer are expected after an edit
FIRST_BUILD = "first build"  # the reason of a step of which nothing is known


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


STATUS_WORDS = {
    Status.RAN: "ran",
    Status.HIT_LOCAL: "from the cache",
    Status.HIT_REMOTE: "from the remote cache",
    Status.UP_TO_DATE: "up to date",
    Status.FAILED: "failed",
    Status.SKIPPED: "skipped",
    Status.WOULD_RUN: "would run",
    Status.WOULD_HIT: "would come from the cache",
}


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
    worker: str = field(default="", compare=False)  # on another machine
    waited_seconds: float = field(default=0.0, compare=False)  # after its end, for others that came with it
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
        """Return the report of ``step``; ``result`` is what it made now or before, if anything."""
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
class BuildReport:
    """All steps in the order of the plan. ``executables`` maps a program to its file."""

    steps: tuple[StepReport, ...]
    executables: dict[str, Path]
    seconds: float
    warnings: tuple[str, ...] = ()  # of the cache
    advice: tuple[str, ...] = ()  # warnings about whole programs
    links: Mapping[str, Step] = field(default_factory=dict)  # of programs that were not to be linked
    installs: Mapping[str, tuple[Output, ...]] = field(default_factory=dict)  # outputs to install, by program

    def _repr_html_(self) -> str:
        """Return a table of the steps, for notebooks."""
        rows = []
        for step in self.steps:
            why = step.error.message if step.error else step.reason
            rows.append((step.id, STATUS_WORDS[step.status], f"{step.seconds:.2f} s", why))
        return html_table(("step", "status", "time", "why"), rows)

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """The warnings of steps, of programs and of the cache, each once."""
        of_steps = (warning for step in self.steps for warning in step.warnings)
        return tuple(dict.fromkeys((*of_steps, *self.advice, *self.warnings)))

    @property
    def failed(self) -> tuple[StepReport, ...]:
        """The steps that failed on their own."""
        return tuple(s for s in self.steps if s.status is Status.FAILED)

    @property
    def stopped(self) -> tuple[StepReport, ...]:
        """The steps that were not tried although nothing that they need failed."""
        return tuple(s for s in self.steps if s.status is Status.SKIPPED and s.reason == STOPPED)

    @property
    def saved_seconds(self) -> float:
        """The sum of the run times of steps that came from a cache."""
        hits = (Status.HIT_LOCAL, Status.HIT_REMOTE)
        return sum((step.cost_seconds for step in self.steps if step.status in hits), 0.0)

    @property
    def hit_rate(self) -> float | None:
        """The share of steps that did not have to run, 0 to 1; ``None`` if nothing was looked up."""
        ran = sum(step.status is Status.RAN for step in self.steps)
        hits = sum(step.status in (Status.HIT_LOCAL, Status.HIT_REMOTE) for step in self.steps)
        up_to_date = sum(step.status is Status.UP_TO_DATE for step in self.steps)
        return (hits + up_to_date) / (hits + up_to_date + ran) if hits + ran else None

    @property
    def note(self) -> str:
        """The common reason why many steps ran; else empty."""
        reasons = Counter(
            reason
            for step in self.steps
            if step.status is Status.RAN and step.reason not in ("", FIRST_BUILD)
            for reason in step.reason.split("; ")
        )
        reason, steps = max(reasons.items(), key=lambda item: item[1], default=("", 0))
        return f"{steps} steps ran: {reason}" if steps >= _MANY_STEPS else ""

    @property
    def ok(self) -> bool:
        """Whether every step that was asked for has its outputs."""
        return not any(s.status in (Status.FAILED, Status.SKIPPED) for s in self.steps)
