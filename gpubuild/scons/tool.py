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

import copy
import os
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from gpubuild.errors import EXIT_USAGE, GpubuildError, UsageError
from gpubuild.scons.action import SIGNATURE, StepAction
from gpubuild.scons.front import Front, front_of
from gpubuild.scons.node import LINK, Node

PROJECT_FILE = "targets.yaml"


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
    front = _front(env, project)
    return _add_program(env, front, name, env.arg2nodes(objects, env.fs.File))


def gpu_programs(env: Any, project: Any = PROJECT_FILE, **variables: Any) -> dict[str, Any]:  # noqa: ANN401
    """The executables of all programs of ``project``, by name, in file order."""
    if variables:
        env = env.Override(variables)
    front = _front(env, project)
    return {name: _add_program(env, front, name, []) for name in front.programs()}


def _front(env: Any, project: Any) -> Front:  # noqa: ANN401
    file = env.File(project).srcnode()
    try:
        _refuse_repository(file)
        return front_of(
            file.abspath,
            env.Dir(env["GPUBUILD_DIR"]).abspath,
            int(env.GetOption("num_jobs")),
            use_cache=bool(env["GPUBUILD_CACHE"]),
        )
    except GpubuildError as error:
        _stop(error)


def _refuse_repository(file: Any) -> None:  # noqa: ANN401
    """A project is the folder that its file is in; SCons would have each source from another place."""
    if not Path(file.abspath).exists() and (found := file.rfile().abspath) != file.abspath:
        raise UsageError(
            f"{file} is in a repository, {found}, and not here: "
            "a project is built from the files beside its own",
            hint=f'name the file itself, env.GpuProgram("NAME", "{found}"), or copy the project',
        )


def _add_program(env: Any, front: Front, name: str, objects: list[Any]) -> Any:  # noqa: ANN401
    env = _by_content(env)
    try:
        nodes = front.nodes(name)
        for node in nodes:
            if node.id not in front.known:
                front.known.add(node.id)
                _add_node(env, front, front.link(node, objects) if objects and node.kind == LINK else node)
    except GpubuildError as error:
        if not env.GetOption("clean"):
            _stop(error)
        # What cannot be planned can still be cleaned, as far as known.
        layout = front.session().layout
        executable = env.File(str(layout.executable(name)))
        env.Clean(executable, [executable, env.Dir(str(layout.program_dir(name)))])
        return [executable]
    (executable,) = (node.targets[0] for node in nodes if node.kind == LINK)
    return env.arg2nodes([executable], env.fs.File)


def _by_content(env: Any) -> Any:  # noqa: ANN401
    """``env``, but what is out of date goes by content, whatever ``Decider`` the user has for other nodes.

    Steps do not touch outputs that are right already, and those from caches may be older than what
    they were made of: times say nothing about them.
    """
    if "overrides" not in vars(env):
        own = copy.copy(env)  # a clone is not worth its time
        own.Decider("content")
        return own
    # What is set in an override goes to the environment below it, and SCons cannot copy one.
    from SCons.Environment import Base

    plain = Base(tools=[])
    plain.Decider("content")
    own = env.Override({"GPUBUILD_DIR": env["GPUBUILD_DIR"]})  # without anything in it, it would be `env`
    vars(own).update(decide_source=plain.decide_source, decide_target=plain.decide_target)
    return own


def _add_node(env: Any, front: Front, node: Node) -> None:  # noqa: ANN401
    targets = [env.File(path) for path in node.targets]
    sources = [env.File(path) for path in node.sources]
    action = env.Action(StepAction(front, node), varlist=[SIGNATURE])
    made = env.Command(targets, sources, action, **{SIGNATURE: node.signature})
    env.Depends(made, [env.File(path) for path in node.headers])
    # SCons must not delete the files first: the step itself knows which of them are still right.
    env.Precious(made)
    # A CacheDir knows steps by what they are known to read before they ran: not by the library that
    # a linker will find. gpubuild's own cache does, and checks what it gives.
    env.NoCache(made)


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
