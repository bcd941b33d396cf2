"""The engine's one entry point: a job in, its result out. One module per kind of step."""

from __future__ import annotations

from gpubuild.engine.io import StepIO
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
    """
    io = StepIO(job)
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
    return io.finish()


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


def wants_preload(job: Job) -> bool:
    """Whether a job of this kind is faster after :func:`preload`, which takes a quarter of a second.

    Steps that only start a compiler are not; where nothing else runs it would be most of their time.
    """
    return not isinstance(job.params, PreprocessParams | CcParams | RuntimeParams | LinkParams)


def preload() -> None:
    """Make what steps need, once, before jobs are forked: modules, code generators, an MLIR context.

    Each job is a process of its own, so what is not made here is made by every job again. Starts no
    thread, and runs nothing that a user has written.
    """
    import gpubuild.engine.bindings  # noqa: F401 - before anything imports mlir
    from gpubuild.engine import bundle, c, host, link, llvm, llvm_source, mlir, nvvm, outline, rocdl  # noqa: F401
    from gpubuild.engine.cpu import compile as cpu  # noqa: F401

    llvm.initialize()
    mlir.make_spare_context()
