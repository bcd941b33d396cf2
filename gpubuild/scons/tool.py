"""Tool: ``Environment(tools=["default", "gpubuild"])`` and ``env.GpuProgram``.

    env.GpuProgram("saxpy", "targets.yaml")    # → the executable
    env.GpuProgram("app", "targets.yaml", objects=env.Object("ui.c"))
    env.GpuPrograms("targets.yaml")            # → {name: the executable} of every program

Every step of the plan becomes SCons nodes: one per (gpu.module, target), binary, host object and
program. SCons decides what is out of date, in what order and how many at once; a step runs as it
does under ``gpubuild build``, with the same cache and the same bytes.

Construction variables: ``GPUBUILD_DIR`` is the build folder (default ``#build``);
``GPUBUILD_CACHE = False`` turns the cache off.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from gpubuild.errors import EXIT_USAGE, GpubuildError
from gpubuild.model.params import LinkParams
from gpubuild.model.step import Input, Step, StepKind
from gpubuild.scons.action import SIGNATURE, StepAction, signature
from gpubuild.scons.session import Session, open_session

PROJECT_FILE = "targets.yaml"
_CXX = frozenset({".cpp", ".cc", ".cxx", ".C", ".c++"})


def generate(env: Any, **_: object) -> None:  # noqa: ANN401 - SCons has no types
    """Add the builders to ``env``; SCons calls this."""
    env.SetDefault(GPUBUILD_DIR="#build", GPUBUILD_CACHE=True)
    env.AddMethod(gpu_program, "GpuProgram")
    env.AddMethod(gpu_programs, "GpuPrograms")


def exists(env: Any) -> bool:  # noqa: ANN401
    """Whether the tool can be used: its tools come with it, so always."""
    return True


def gpu_program(
    env: Any,  # noqa: ANN401
    name: str,
    project: Any = PROJECT_FILE,  # noqa: ANN401
    objects: Any = (),  # noqa: ANN401
    **variables: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Nodes of the executable ``name`` as ``project`` describes it.

    ``objects`` are object files and archives, made by other builders perhaps, to link in addition.
    ``variables`` override construction variables. A mistake in the project file, or a source that
    cannot be split into its modules, ends SCons with a message before anything is built.
    """
    if variables:
        env = env.Override(variables)
    session = _session(env, project)
    return _add_program(env, session, name, env.arg2nodes(objects, env.fs.File))


def gpu_programs(env: Any, project: Any = PROJECT_FILE, **variables: Any) -> dict[str, Any]:  # noqa: ANN401
    """The executables of all programs of ``project``, by name, in file order."""
    if variables:
        env = env.Override(variables)
    session = _session(env, project)
    return {name: _add_program(env, session, name, []) for name in session.project.programs}


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
        _stop(error)


def _add_program(env: Any, session: Session, name: str, objects: list[Any]) -> Any:  # noqa: ANN401
    try:
        plan = session.plan(name)
    except GpubuildError as error:
        if not env.GetOption("clean"):
            _stop(error)
        # What cannot be planned can still be cleaned, as far as it is known.
        executable = env.File(str(session.layout.executable(name)))
        env.Clean(executable, [executable, env.Dir(str(session.layout.program_dir(name)))])
        return [executable]
    for step_id in plan.order():
        if step_id not in session.known:
            session.known.add(step_id)
            step = plan.steps[step_id]
            _add_step(env, session, _link_too(step, objects) if step.kind is StepKind.LINK else step)
    return env.arg2nodes([str(plan.executable(name).output_path("executable"))], env.fs.File)


def _link_too(step: Step, objects: list[Any]) -> Step:
    """The link step with more to link, as if it had been listed last under ``sources:``."""
    params = step.params
    assert isinstance(params, LinkParams)  # noqa: S101
    first = len(step.inputs)
    added = tuple(
        Input(
            name=f"{'archive' if node.get_suffix() == '.a' else 'object'}.{first + number}",
            path=Path(node.abspath),
        )
        for number, node in enumerate(objects)
    )
    # The runtime stays last: objects need it.
    step = replace(step, inputs=(*step.inputs[:-1], *added, step.inputs[-1]))
    if any(source.get_suffix() in _CXX for node in objects for source in node.sources):
        tools = tuple("cxx" if tool == "cc" else tool for tool in step.tools)
        step = replace(step, params=replace(params, cxx=True), tools=tools)
    return step


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


def _stop(error: GpubuildError) -> NoReturn:
    """End SCons as its own UserError does, but naming the line of the SConscript, not one of ours."""
    ours = Path(__file__).parent
    frames = traceback.extract_stack()
    users = [
        f for f in frames if f"{os.sep}SCons{os.sep}" not in f.filename and ours != Path(f.filename).parent
    ]
    lines = ["", f"scons: *** {error.render()}"]
    if users:
        lines.append(f'File "{users[-1].filename}", line {users[-1].lineno}, in {users[-1].name}')
    print("\n".join(lines), file=sys.stderr)
    raise SystemExit(EXIT_USAGE)
