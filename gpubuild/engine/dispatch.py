"""The engine's entry point: run a job and return its result. One module for each kind of step."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from importlib import import_module
from types import ModuleType

from gpubuild.engine.ir import step_io
from gpubuild.engine.ir.dump import dumping
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import GpubuildError, InputChangedError, StepError, ToolNotFoundError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import (
    BundleParams,
    CcParams,
    CompileParams,
    HostParams,
    LinkParams,
    LlvmParams,
    OutlineParams,
    PreprocessParams,
    RuntimeParams,
    pipeline_of,
)
from gpubuild.targets.registry import vendor, vendors
from gpubuild.targets.vendor import Vendor

_SEARCH_FOLDER = "second-look"  # in the job's own, so that the log of the first run stays
_SEARCH_SECONDS = 60.0
# Stages that fail because of the module, on code that is not MLIR and has no locations.
_SEARCHED_STAGES = frozenset({"lower", "optimize", "emit", "ptxas", "lld", "image", "libraries"})


def run_job(job: Job) -> JobResult:
    """Run one step in this process. Raises ``StepError`` and other errors; may abort the process.

    Called in worker processes only: MLIR and LLVM can end the process without an exception.
    A job that ``finds_failure`` raises a ``StepError`` with the location of the failure, if found.
    """
    if job.finds_failure:
        from gpubuild.engine import bisect

        raise StepError("the step fails", diagnostics=bisect.find(job, run_job))
    io = StepIO(job)
    with dumping(job.dump_ir), step_io.recorded(pipeline_of(job.params)[0], io):
        try:
            _run(job, io)
        except StepError as error:
            raise error.with_(kernel=_function_of(error, job, io)) from error.__cause__
    return io.finish()


def second_look(job: Job, error: GpubuildError) -> Job | None:
    """Return the job that searches for the location of ``error`` of ``job``; ``None`` if none is useful."""
    if not isinstance(job.params, CompileParams) or job.finds_failure:
        return None
    if not isinstance(error, StepError) or isinstance(error, InputChangedError | ToolNotFoundError):
        return None
    if error.stage not in _SEARCHED_STAGES or any(d.location is not None for d in error.diagnostics):
        return None
    if not any(i.name == "located" for i in job.inputs):
        return None
    workdir = job.workdir / _SEARCH_FOLDER
    try:
        workdir.mkdir()
    except OSError:  # the error without a location is more important
        return None
    limit = min(job.timeout_seconds or _SEARCH_SECONDS, _SEARCH_SECONDS)
    return replace(job, workdir=workdir, timeout_seconds=limit, dump_ir=None, finds_failure=True)


def _function_of(error: StepError, job: Job, io: StepIO) -> str:
    """Return the function of the module that an error of a compile step is in, if it has a location."""
    location = next((d.location for d in error.diagnostics if d.location is not None), None)
    if isinstance(job.params, CompileParams) and location is not None and io.has("located"):
        from gpubuild.engine import bisect

        return bisect.function_at(io.text("located"), location)
    return error.kernel


def _run(job: Job, io: StepIO) -> None:
    match job.params:
        case OutlineParams() as params:
            from gpubuild.engine.source import outline

            outline.run(params, io)
        case CompileParams() as params:
            _back_end(vendor(params.target.kind)).run(params, io)
        case BundleParams() as params:
            from gpubuild.engine.host import gpu_binary

            gpu_binary.run(params, io)
        case HostParams() as params:
            from gpubuild.engine.host import lowering

            lowering.run(params, io)
        case PreprocessParams() | CcParams() | RuntimeParams() as params:
            from gpubuild.engine.cc import compile as cc_compile

            cc_compile.run(params, io)
        case LlvmParams() as params:
            from gpubuild.engine.host import object_code

            object_code.run(params, io)
        case LinkParams() as params:
            from gpubuild.engine.cc import link

            link.run(params, io)


def _back_end(vendor: Vendor) -> ModuleType:
    """Return the module of a vendor's package whose ``run(params, io)`` runs a compile step."""
    return import_module(f"{vendor.backend}.compile")


class Part(StrEnum):
    """The part of the engine that a job needs; each includes those before it."""

    NOTHING = ""  # the job only starts a compiler
    MLIR = "mlir"
    ALL = "all"


def part_for(job: Job) -> Part:
    """Return what to :func:`preload` for ``job``: loading more would take most of its time."""
    match job.params:
        case PreprocessParams() | CcParams() | RuntimeParams() | LinkParams():
            return Part.NOTHING
        case OutlineParams():
            return Part.MLIR
        case _:
            return Part.ALL


def preload(part: str) -> None:
    """Load modules, code generators and an MLIR context once, before jobs are forked.

    Starts no thread, and runs nothing that a user wrote. Part.MLIR takes 70 ms, the rest 150 ms.
    """
    import gpubuild.engine.ir.bindings  # noqa: F401 - before anything imports mlir
    from gpubuild.engine.ir import contexts
    from gpubuild.engine.source import outline  # noqa: F401

    contexts.make_spare_context()
    if part == Part.ALL:
        from gpubuild.engine.host import lowering  # noqa: F401
        from gpubuild.engine.ir import llvm

        for each in vendors():
            _back_end(each)
        llvm.initialize()
