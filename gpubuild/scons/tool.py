"""The SCons tool: ``Environment(tools=["default", "gpubuild"])``, ``env.GpuProgram``, ``env.GpuPrograms``.

    env.GpuProgram("saxpy", "targets.yaml")    # → the executable or library
    env.GpuProgram("app", "targets.yaml", objects=env.Object("ui.c"))
    env.GpuPrograms("targets.yaml")            # → {name: executable or library} of all programs

Every step of the plan is a set of SCons nodes: those of each (gpu.module, target), binary, host object and
program. SCons decides which are out of date, in what order they run and how many at once. A step runs as
under ``gpubuild build``, with the same cache and the same bytes.

Construction variables: ``GPUBUILD_DIR`` is the build folder (default ``#build``);
``GPUBUILD_CACHE = False`` disables the cache; ``GPUBUILD_EXECUTOR`` is as ``--executor``.
"""

from __future__ import annotations

import copy
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from gpubuild.errors import EXIT_USAGE, GpubuildError, UsageError
from gpubuild.scons import sketch
from gpubuild.scons.node import LINK, Node, Request
from gpubuild.support.text import suggestion, visible

if TYPE_CHECKING:
    from gpubuild.scons.session import Session

PROJECT_FILE = "targets.yaml"
_VARIABLES = ("GPUBUILD_DIR", "GPUBUILD_CACHE", "GPUBUILD_CONFIG", "GPUBUILD_DEFINES", "GPUBUILD_EXECUTOR")
_USAGE = (
    "list sources under `programs: NAME: sources:` of a targets.yaml, "
    'and write env.GpuProgram("NAME", "targets.yaml")'
)
SIGNATURE = "GPUBUILD_STEP"  # the construction variable with the signature of a step
_fronts: dict[str, Front] = {}  # by build folder


def generate(env: Any, **_: object) -> None:  # noqa: ANN401 - SCons has no types
    """Add the builders to ``env``; SCons calls this."""
    env.SetDefault(GPUBUILD_DIR="#build", GPUBUILD_CACHE=True, GPUBUILD_CONFIG="", GPUBUILD_DEFINES={})
    env.SetDefault(GPUBUILD_EXECUTOR="")
    env.AddMethod(gpu_program, "GpuProgram")
    env.AddMethod(gpu_programs, "GpuPrograms")


def exists(env: Any) -> bool:  # noqa: ANN401
    """Return true: everything that the tool needs is installed with it."""
    return True


def gpu_program(
    env: Any,  # noqa: ANN401
    name: str,
    project: Any = PROJECT_FILE,  # noqa: ANN401
    objects: Any = (),  # noqa: ANN401
    **variables: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Return the nodes of what program ``name`` of ``project`` is linked into.

    ``objects`` are further object files and archives to link, for example of other builders.
    ``variables`` override construction variables of this tool. An error in the arguments, in the project
    file, or in a source that cannot be split into modules, ends SCons before anything is built.
    """
    front = _front(env, project, variables)
    if not isinstance(name, str):
        _stop(UsageError(f"the name of a program is a text, not {name!r}", hint=_USAGE))
    return _add_program(env, front, name, env.arg2nodes(objects, env.fs.File))


def gpu_programs(env: Any, project: Any = PROJECT_FILE, **variables: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the products of all programs of ``project``, by name, in file order."""
    front = _front(env, project, variables)
    return {name: _add_program(env, front, name, []) for name in front.programs()}


def _front(env: Any, project: Any, variables: dict[str, Any]) -> Front:  # noqa: ANN401
    try:
        for variable in variables:
            if variable not in _VARIABLES:
                raise UsageError(
                    f"there is no argument {variable!r}{suggestion(variable, _VARIABLES)}",
                    hint="targets, levels and other options are keys of the project file; "
                    f"construction variables of gpubuild are {', '.join(_VARIABLES)}",
                )
        if variables:
            env = env.Override(variables)
        file = _project_file(env, project)
        _refuse_repository(file)
        profile = str(env["GPUBUILD_CONFIG"])
        folder = env["GPUBUILD_DIR"]
        macros = env["GPUBUILD_DEFINES"]
        if not isinstance(macros, dict):
            raise UsageError(f'GPUBUILD_DEFINES is a dictionary such as {{"TILE": 16}}, not {macros!r}')
        defines = [n if v is None else f"{n}={v}" for n, v in macros.items()]
        return front_of(
            Request(
                file=file.abspath,
                build_dir=env.Dir(f"#build-{profile}" if profile and folder == "#build" else folder).abspath,
                variant=[profile, defines],
                jobs=int(env.GetOption("num_jobs")),
                use_cache=bool(env["GPUBUILD_CACHE"]),
                executor=str(env["GPUBUILD_EXECUTOR"]),
            )
        )
    except GpubuildError as error:
        _stop(error)


def _project_file(env: Any, project: Any) -> Any:  # noqa: ANN401
    """Return the node of the project file. Raises ``UsageError`` for sources and whatever else is none."""
    files = env.Flatten([project])
    suffix = Path(str(files[0])).suffix if len(files) == 1 else ""
    if suffix not in (".yaml", ".yml"):
        from gpubuild.model.project import SOURCE_SUFFIXES

        if not suffix or suffix in SOURCE_SUFFIXES:
            shown = ", ".join(map(str, files)) or "nothing"
            raise UsageError(f"a project file is expected, not {shown}", hint=_USAGE)
    try:
        return env.File(files[0]).srcnode()
    except TypeError as error:  # a folder
        raise UsageError(f"a project file is expected, not {files[0]}", hint=_USAGE) from error


def _refuse_repository(file: Any) -> None:  # noqa: ANN401
    """Raise ``UsageError`` for a project file in a repository: its sources must lie beside it."""
    if not Path(file.abspath).exists() and (found := file.rfile().abspath) != file.abspath:
        raise UsageError(
            f"{file} exists only in a repository, as {found}; "
            "the sources of a project must lie beside its file",
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
        # Clean what is known of a program that cannot be planned.
        layout, programs = front.session().layout, front.session().project.programs
        if name not in programs:
            _stop(error)
        product = env.fs.File(str(layout.product(programs[name])))
        env.Clean(product, [product, env.fs.Dir(str(layout.program_dir(name)))])
        return [product]
    (product,) = (node.targets[0] for node in nodes if node.kind == LINK)
    return [env.fs.File(product)]


def _by_content(env: Any) -> Any:  # noqa: ANN401
    """Return ``env`` with the decider "content", whatever ``Decider`` the user has for other nodes.

    Times prove nothing: steps do not rewrite unchanged outputs, and outputs from a cache may be older than
    their inputs.
    """
    if "overrides" not in vars(env):
        own = copy.copy(env)  # faster than a clone
        own.Decider("content")
        return own
    # Attributes set on an override go to the environment below it, and SCons cannot copy an override.
    from SCons.Environment import Base

    plain = Base(tools=[])
    plain.Decider("content")
    own = env.Override({"GPUBUILD_DIR": env["GPUBUILD_DIR"]})  # an empty override would be `env` itself
    vars(own).update(decide_source=plain.decide_source, decide_target=plain.decide_target)
    return own


def _add_node(env: Any, front: Front, node: Node) -> None:  # noqa: ANN401
    file = env.fs.File  # unlike env.File it keeps a `$` in a name
    targets = [file(path) for path in node.targets]
    sources = [file(path) for path in node.sources]
    action = env.Action(StepAction(front, node), varlist=[SIGNATURE])
    made = env.Command(targets, sources, action, **{SIGNATURE: node.signature})
    env.Depends(made, [file(path) for path in node.headers])
    # SCons must not delete the files first: the step knows which of them are up to date.
    env.Precious(made)
    # The keys of a CacheDir lack files that are found while a step runs, such as libraries. Those of
    # gpubuild's cache have them.
    env.NoCache(made)


def _stop(error: GpubuildError) -> NoReturn:
    """End SCons as its UserError does, but with the line of the SConscript."""
    own = Path(__file__).parent
    frames = traceback.extract_stack()
    users = [
        f for f in frames if f"{os.sep}SCons{os.sep}" not in f.filename and own != Path(f.filename).parent
    ]
    lines = ["", f"scons: *** {error.render()}"]
    if users:
        lines.append(f'File "{users[-1].filename}", line {users[-1].lineno}, in {users[-1].name}')
    print("\n".join(lines), file=sys.stderr)
    raise SystemExit(EXIT_USAGE)


class Front:
    """The nodes of a project in one build folder. Opens a session only when the sketch is not enough.

    Raises ``ConfigError`` and ``UsageError`` without a valid sketch and project.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.known: set[str] = set()  # ids of steps that SCons has nodes of
        self._requested: dict[str, None] = {}  # programs, in order
        self._opening = threading.Lock()
        self._session: Session | None = None
        self._failure: GpubuildError | None = None
        self._sketch = sketch.read(request)
        if self._sketch is None:
            self.session()
        else:
            for message in self._sketch.warnings:
                print(f"gpubuild: warning: {visible(message)}", file=sys.stderr)

    def programs(self) -> list[str]:
        """Return the names of the programs, in file order."""
        if self._session is None and self._sketch is not None:
            return self._sketch.all_programs
        return list(self.session().project.programs)

    def nodes(self, program: str) -> list[Node]:
        """Return the steps of a program, producers first. Raises ``UsageError`` and ``StepError``."""
        if self._session is None and self._sketch is not None:
            nodes = self._sketch.nodes(program)
            if nodes is not None:
                self._requested[program] = None
                return nodes
        nodes = self.session().nodes(program)
        self._requested[program] = None
        return nodes

    def link(self, node: Node, objects: list[Any]) -> Node:
        """Return the link step with further objects, nodes of SCons, as if listed last under ``sources:``."""
        return self.session().link_too(node, objects)

    def run(self, node: Node) -> GpubuildError | None:
        """Bring a step up to date and return its error; called from the job threads of SCons."""
        try:
            return self.session().run(node)
        except GpubuildError as error:
            return error

    def session(self) -> Session:
        """Return the session, opened on first use. Raises ``ConfigError``, ``UsageError``, ``StepError``.

        Opening locks the build folder, forks, and plans the nodes that SCons has from the sketch. It is
        not repeated after a failure: it would wait for its own lock.
        """
        with self._opening:
            if self._failure is not None:
                raise self._failure
            if self._session is None:
                from gpubuild.scons.session import Session

                try:
                    session = Session(self.request)
                    for program in self._requested:
                        session.nodes(program, as_sketched=True)
                except GpubuildError as error:
                    self._failure = error
                    raise
                self._session = session
            return self._session


def front_of(request: Request) -> Front:
    """Return the front of the build folder, made on first use.

    Raises ``ConfigError``, and ``UsageError`` if two project files, or two variants, share a build folder.
    """
    file, build_dir = request.file, request.build_dir
    front = _fronts.get(build_dir)
    if front is None:
        front = _fronts[build_dir] = Front(request)
    both = ""
    if front.request.file != file:
        both = f"{file} and {front.request.file}"
    elif front.request.variant != request.variant:
        both = f"two variants of {file}"
    if both:
        raise UsageError(
            f"{both} would both build in {build_dir}",
            hint="give one of them another folder: env.GpuProgram(…, GPUBUILD_DIR='build2')",
        )
    return front


class StepAction:
    """Run a step and print its line, for ``SCons.Action.Action``."""

    def __init__(self, front: Front, node: Node) -> None:
        self._front = front
        self._node = node
        # --debug=explain prints this name when it changes.
        self.__name__ = f"{node.title}: {node.options} "

    def __call__(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> int:  # noqa: ANN401
        """Run the step, print its error, and return its exit status."""
        error = self._front.run(self._node)
        if error is None:
            return 0
        print(f"gpubuild: error: {error.render()}", file=sys.stderr, flush=True)
        return error.exit_code

    def strfunction(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> str:  # noqa: ANN401
        """Return the line that SCons prints before it runs the step."""
        return f"gpubuild: {self._node.title}"
