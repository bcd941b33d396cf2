"""Second look: the job that finds out where in the user's file a compile step has failed."""

from __future__ import annotations

from dataclasses import replace

from gpubuild.errors import GpubuildError, InputChangedError, StepError, ToolNotFoundError
from gpubuild.model.job import Job
from gpubuild.model.step import CompileParams

_FOLDER = "second-look"  # in the job's own, so that the log of the first look stays
_TIMEOUT_SECONDS = 60.0
# Where what fails is no longer MLIR, which has places. Other stages fail for other reasons than the module's.
_STAGES = frozenset({"lower", "optimize", "emit", "ptxas", "lld", "image", "libraries"})


def second_look(job: Job, error: GpubuildError) -> Job | None:
    """The job that looks for the place of ``error``, of ``job``; ``None`` where none would help."""
    if not isinstance(job.params, CompileParams) or job.finds_failure:
        return None
    if not isinstance(error, StepError) or isinstance(error, InputChangedError | ToolNotFoundError):
        return None
    if error.stage not in _STAGES or any(d.location is not None for d in error.diagnostics):
        return None
    if not any(i.name == "located" for i in job.inputs):
        return None
    workdir = job.workdir / _FOLDER
    try:
        workdir.mkdir()
    except OSError:  # what is told without a place is worth more than this failure
        return None
    limit = min(job.timeout_seconds or _TIMEOUT_SECONDS, _TIMEOUT_SECONDS)
    return replace(job, workdir=workdir, timeout_seconds=limit, dump_ir=None, finds_failure=True)
