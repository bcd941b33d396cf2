"""The engine's entry point: run a job and return its result. One module for each kind of step."""

from __future__ import annotations

from importlib import import_module

from gpubuild import environment
from gpubuild.engine.ir import step_io
from gpubuild.engine.ir.dump import dumping
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import GpubuildError, InputChangedError, StepError, ToolNotFoundError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import (
    BundleParams,
    CcParams,
    CompileParams,
    GenerateParams,
    HostParams,
    InterfaceParams,
    LibraryParams,
    LinkParams,
    LlvmParams,
    OutlineParams,
    Params,
    PreprocessParams,
    RuntimeParams,
    pipeline_of,
)
from gpubuild.support.frozen import replace
from gpubuild.targets.registry import vendor

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


_MODULES: dict[type[Params], str] = {
    GenerateParams: "gpubuild.engine.cc.generate",
    OutlineParams: "gpubuild.engine.source.outline",
    BundleParams: "gpubuild.engine.host.gpu_binary",
    HostParams: "gpubuild.engine.host.lowering",
    LlvmParams: "gpubuild.engine.host.object_code",
    PreprocessParams: "gpubuild.engine.cc.compile",
    CcParams: "gpubuild.engine.cc.compile",
    RuntimeParams: "gpubuild.engine.cc.compile",
    LinkParams: "gpubuild.engine.cc.link",
    LibraryParams: "gpubuild.engine.cc.library",
    InterfaceParams: "gpubuild.engine.host.library_files",
}
# Where MLIR's serializers look for libraries, which are in no key.
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "ROCM_HOME", "ROCM_PATH", "ROCM_ROOT")
_ONLY_START_COMPILERS = (
    *(GenerateParams, PreprocessParams, CcParams),
    *(RuntimeParams, LinkParams, LibraryParams),
)


def _module(params: Params) -> str:
    """Return the name of the module whose ``run(params, io)`` runs a step."""
    if isinstance(params, CompileParams):
        return f"{vendor(params.target.kind).backend}.compile"
    return _MODULES[type(params)]


def _run(job: Job, io: StepIO) -> None:
    import_module(_module(job.params)).run(job.params, io)


def part_for(params: Params) -> str:
    """Return what to :func:`preload` for jobs with ``params``: loading more would take most of their time."""
    return "" if isinstance(params, _ONLY_START_COMPILERS) else _module(params)


def preload(part: str) -> None:
    """Load a module that runs steps, with code generators and an MLIR context, before jobs are forked.

    Starts no thread, and runs nothing that a user wrote. Outlining takes 70 ms, a back end 20 to 100 ms more.
    """
    environment.remove(_TOOLKITS)
    import gpubuild.engine.ir.bindings  # noqa: F401 - before anything imports mlir
    from gpubuild.engine.ir import contexts

    contexts.make_spare_contexts()
    import_module(part)
    if part != _MODULES[OutlineParams]:
        from gpubuild.engine.ir import llvm

        llvm.initialize()
