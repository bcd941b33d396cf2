"""Messages between the executor, its forker and the job processes."""

from __future__ import annotations

from dataclasses import dataclass

from gpubuild.errors import GpubuildError
from gpubuild.model.job import Job, JobResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Executor to forker: run ``job``; call it ``number``."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Forker to executor: the job runs as the leader of process group ``pid``."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """Forker to executor: the job and all its descendants are gone.

    ``answer`` is the pickled ``JobResult`` or ``GpubuildError``, empty or cut off after a crash.
    ``exit_code`` is negative, minus the signal's number, when a signal ended the process.
    """

    number: int
    answer: bytes
    exit_code: int
    timed_out: bool = False
    fork_error: str = ""  # why the process could not be made at all


Answer = JobResult | GpubuildError
