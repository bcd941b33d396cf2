"""The engine's one entry point: a job in, its result out. One module per kind of step."""

from __future__ import annotations

from enum import StrEnum

from gpubuild.engine import pipeline_reads
from gpubuild.engine.io import StepIO
from gpubuild.engine.ir_dump import dumping
from gpubuild.errors import StepError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.params import (
    BundleParams,
    CcParams,
    CompileParams,
    HostParams,
    LinkParams,
    LlvmParams,
    OutlineParams,
    PreprocessParams,
    RuntimeParams,
)
from gpubuild.model.target import Kind


def run_job(job: Job) -> JobResult:
    """Run one step in this process. Raises ``StepError`` and its kin; may abort the process.

    Called in worker processes only: MLIR and LLVM can end the process without an exception.
    A job that ``finds_failure`` has no result, but a ``StepError`` with the place, if there is one.
    """
    if job.finds_failure:
        from gpubuild.engine import failure_site

        raise StepError("the step fails", diagnostics=failure_site.find(job, run_job))
    io = StepIO(job)
    with dumping(job.dump_ir), pipeline_reads.recorded(getattr(job.params, "passes", ""), io):
        try:
            _run(job, io)
        except StepError as error:
            _name_kernel(error, job, io)
            raise
    return io.finish()


def _name_kernel(error: StepError, job: Job, io: StepIO) -> None:
    """Tell which function of the module an error of a compile step is in, if it has a place in one."""
    place = next((d.location for d in error.diagnostics if d.location is not None), None)
    if isinstance(job.params, CompileParams) and place is not None and io.has("located"):
        from gpubuild.engine import enclosing

        error.kernel = enclosing.function_at(io.text("located"), place)


def _run(job: Job, io: StepIO) -> None:
    match job.params:
        case OutlineParams() as params:
            from gpubuild.engine import outline

            outline.run(params, io)
        case CompileParams() as params:
            _compile(params, io)
        case BundleParams() as params:
            from gpubuild.engine import bundle

            bundle.run(params, io)
        case HostParams() as params:
            from gpubuild.engine import host

            host.run(params, io)
        case PreprocessParams() | CcParams() | RuntimeParams() as params:
            from gpubuild.engine import c

            c.run(params, io)
        case LlvmParams() as params:
            from gpubuild.engine import llvm_source

            llvm_source.run(params, io)
        case LinkParams() as params:
            from gpubuild.engine import link

            link.run(params, io)


def _compile(params: CompileParams, io: StepIO) -> None:
    match params.kind:
        case Kind.NVVM:
            from gpubuild.engine import nvvm

            nvvm.run(params, io)
        case Kind.ROCDL:
            from gpubuild.engine import rocdl

            rocdl.run(params, io)
        case Kind.CPU:
            from gpubuild.engine.cpu import compile as cpu

            cpu.run(params, io)


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
    import gpubuild.engine.bindings  # noqa: F401 - before anything imports mlir
    from gpubuild.engine import mlir, outline  # noqa: F401

    mlir.make_spare_context()
    if part == Part.ALL:
        from gpubuild.engine import bundle, c, host, link, llvm, llvm_source, nvvm, rocdl  # noqa: F401
        from gpubuild.engine.cpu import compile as cpu  # noqa: F401

        llvm.initialize()
