"""Result: how each step of a build ended, with provenance, and the build as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gpubuild.errors import GpubuildError
from gpubuild.model.digest import Digest
from gpubuild.model.step import StepKind


class Status(StrEnum):
    """Where a step's outputs came from, or why there are none."""

    RAN = "ran"
    HIT_LOCAL = "hit-local"
    HIT_REMOTE = "hit-remote"
    UP_TO_DATE = "up-to-date"
    FAILED = "failed"
    SKIPPED = "skipped"  # a step it needs failed, or the build stopped before it
    WOULD_RUN = "would-run"  # dry run


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """All steps in the order they ended. ``executables`` maps a program to its file."""

    steps: tuple[StepReport, ...]
    executables: dict[str, Path]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[StepReport, ...]:
        """The steps that failed on their own."""
        return tuple(s for s in self.steps if s.status is Status.FAILED)

    @property
    def ok(self) -> bool:
        """Whether every step that was asked for has its outputs."""
        return not any(s.status in (Status.FAILED, Status.SKIPPED) for s in self.steps)
