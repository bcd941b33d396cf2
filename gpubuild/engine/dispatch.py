"""The engine's one entry point: a job in, its result out. One module per kind of step."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from types import ModuleType

from gpubuild.engine.ir import step_io
from gpubuild.engine.ir.dump import dumping
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import (
    BundleParams,
    CcParams,
    CompileParams,
    HostParams,
    LinkParams,
    LlvmParams,
    OutlineParams,
    Params,
    PreprocessParams,
    RuntimeParams,
)
from gpubuild.targets.registry import vendor, vendors
from gpubuild.targets.vendor import Vendor


def run_job(job: Job) -> JobResult:
    """Run one step in this process. Raises ``StepError`` and its kin; may abort the process.

    Called in worker processes only: MLIR and LLVM can end the process without an exception.
    A job that ``finds_failure`` has no result, but a ``StepError`` with the place, if there is one.
    """
    if job.finds_failure:
        from gpubuild.engine.bisect import search

        raise StepError("the step fails", diagnostics=search.find(job, run_job))
    io = StepIO(job)
    with dumping(job.dump_ir), step_io.recorded(_passes(job.params), io):
        try:
            _run(job, io)
        except StepError as error:
            raise error.with_(kernel=_function_of(error, job, io)) from error.__cause__
    return io.finish()


def _passes(params: Params) -> str:
    """The pass pipeline of the user's that a step runs."""
    match params:
        case CompileParams():
            return params.target.passes
        case OutlineParams() | HostParams():
            return params.passes
    return ""


def _function_of(error: StepError, job: Job, io: StepIO) -> str:
    """Return the function of the module that an error of a compile step is in, if it has a location."""
    place = next((d.location for d in error.diagnostics if d.location is not None), None)
    if isinstance(job.params, CompileParams) and place is not None and io.has("located"):
        from gpubuild.engine.bisect import search

        return search.function_at(io.text("located"), place)
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
    """The module of a vendor's package whose ``run(params, io)`` does a compile step."""
    return import_module(f"{vendor.backend}.compile")


class Part(StrEnum):
    """What of the engine a job needs, each with all that stands before it."""

    NOTHING = ""  # the job only starts a compiler
    MLIR = "mlir"
    ALL = "all"


def part_for(job: Job) -> Part:
    """What to :func:`preload` for ``job``: where nothing else runs, more would be most of its time."""
    match job.params:
        case PreprocessParams() | CcParams() | RuntimeParams() | LinkParams():
            return Part.NOTHING
        case OutlineParams():
            return Part.MLIR
        case _:
            return Part.ALL


def preload(part: str) -> None:
    """Make what steps need, once, before jobs are forked: modules, code generators, an MLIR context.

    Each job is a process of its own, so what is not made here is made by every job again. Starts no
    thread, and runs nothing that a user has written. Part.MLIR takes 70 ms, the rest 130 ms.
    """
    import gpubuild.engine.ir.bindings  # noqa: F401 - before anything imports mlir
    from gpubuild.engine.ir import contexts
    from gpubuild.engine.source import outline  # noqa: F401

    contexts.make_spare_context()
    if part == Part.ALL:
        from gpubuild.engine.ir import llvm

        for each in vendors():
            _back_end(each)
        llvm.initialize()
