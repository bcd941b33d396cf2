"""Tool: ``Environment(tools=["default", "gpubuild"])`` and ``env.GpuProgram``.

    env.GpuProgram("saxpy", "targets.yaml")    # → the executable
    env.GpuPrograms("targets.yaml")            # → {name: the executable} of every program

Every step of the plan becomes SCons nodes: one per (gpu.module, target), binary, host object and
program. SCons decides what is out of date, in what order and how many at once; a step runs as it
does under ``gpubuild build``, with the same cache and the same bytes.

Construction variables: ``GPUBUILD_DIR`` is the build folder (default ``#build``);
``GPUBUILD_CACHE = False`` turns the cache off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpubuild.errors import GpubuildError
from gpubuild.graph.plan import Plan
from gpubuild.model.step import Step, StepKind
from gpubuild.scons.action import SIGNATURE, StepAction, signature
from gpubuild.scons.session import Session, open_session

PROJECT_FILE = "targets.yaml"


def generate(env: Any, **_: object) -> None:  # noqa: ANN401 - SCons has no types
    """Add the builders to ``env``; SCons calls this."""
    env.SetDefault(GPUBUILD_DIR="#build", GPUBUILD_CACHE=True)
    env.AddMethod(gpu_program, "GpuProgram")
    env.AddMethod(gpu_programs, "GpuPrograms")


def exists(env: Any) -> bool:  # noqa: ANN401
    """Whether the tool can be used: its tools come with it, so always."""
    return True


def gpu_program(env: Any, name: str, project: Any = PROJECT_FILE, **variables: Any) -> Any:  # noqa: ANN401
    """Nodes of the executable ``name`` as ``project`` describes it.

    ``variables`` override construction variables. A mistake in the project file, or a source that
    cannot be split into its modules, ends SCons with a message before anything is built.
    """
    if variables:
        env = env.Override(variables)
    session = _session(env, project)
    return _add_program(env, session, name)


def gpu_programs(env: Any, project: Any = PROJECT_FILE, **variables: Any) -> dict[str, Any]:  # noqa: ANN401
    """The executables of all programs of ``project``, by name, in file order."""
    if variables:
        env = env.Override(variables)
    session = _session(env, project)
    return {name: _add_program(env, session, name) for name in session.project.programs}


def _session(env: Any, project: Any) -> Session:  # noqa: ANN401
    file = env.File(project)
    folder = Path(env.Dir(env["GPUBUILD_DIR"]).abspath)
    try:
        return open_session(
            Path(file.srcnode().abspath),
            folder,
            int(env.GetOption("num_jobs")),
            use_cache=bool(env["GPUBUILD_CACHE"]),
        )
    except GpubuildError as error:
        raise _stop(error) from None


def _add_program(env: Any, session: Session, name: str) -> Any:  # noqa: ANN401
    try:
        plan = session.plan(name)
    except GpubuildError as error:
        if not env.GetOption("clean"):
            raise _stop(error) from None
        # What cannot be planned can still be cleaned, as far as it is known.
        executable = env.File(str(session.layout.executable(name)))
        env.Clean(executable, [executable, env.Dir(str(session.layout.program_dir(name)))])
        return [executable]
    for step_id in plan.order():
        if step_id not in session.known:
            session.known.add(step_id)
            _add_step(env, session, plan.steps[step_id])
    return _executable(env, plan, name)


def _executable(env: Any, plan: Plan, name: str) -> Any:  # noqa: ANN401
    return env.arg2nodes([str(plan.executable(name).output_path("executable"))], env.fs.File)


def _add_step(env: Any, session: Session, step: Step) -> None:  # noqa: ANN401
    targets = [env.File(str(path)) for path in _output_paths(step)]
    # Inputs outside the key only improve messages: they come from steps that are inputs anyway.
    sources = [env.File(str(item.path)) for item in step.inputs if item.in_key]
    action = env.Action(StepAction(session, step), varlist=[SIGNATURE])
    made = env.Command(targets, sources, action, **{SIGNATURE: signature(session, step)})
    env.Depends(made, [env.File(path) for path in _headers(step)])
    # SCons must not delete the files first: the step itself knows which of them are still right.
    env.Precious(made)


def _output_paths(step: Step) -> list[Path]:
    if step.dynamic_dir is None:
        return [output.path for output in step.outputs]
    # Planning has just run the step, so that its outputs are there to be listed.
    return sorted(step.dynamic_dir.iterdir())


def _headers(step: Step) -> list[str]:
    """The files a C source includes, as the preprocessor told while the project was planned."""
    if step.kind is not StepKind.PREPROCESS:
        return []
    try:
        found = json.loads(step.output_path("deps").read_text())
    except (OSError, ValueError):
        return []
    return [str(path) for path in found if isinstance(path, str) and Path(path).is_absolute()]


def _stop(error: GpubuildError) -> Exception:
    from SCons.Errors import UserError

    stop: Exception = UserError(error.render())
    return stop
