"""Executor: where jobs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpubuild.model.job import Job, JobResult

if TYPE_CHECKING:
    from concurrent.futures import Future  # loads logging; most builds run nothing


class Executor(Protocol):
    """Runs jobs side by side, each isolated from the others and from the caller."""

    @property
    def workers(self) -> int:
        """How many jobs can run at once."""
        ...

    def submit(self, job: Job) -> Future[JobResult]:
        """Start a job. The future raises ``StepError`` (or ``StepCrashedError``) when it fails."""
        ...

    def cancel(self) -> None:
        """Stop everything under way now, children of workers included, and wait for their end."""
        ...

    def close(self) -> None:
        """Wait for nothing; release the workers. No job may be under way."""
        ...
