"""Front: what SCons sees of one build folder. Opens the session only when its sketch does not do."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from gpubuild.errors import GpubuildError, UsageError
from gpubuild.scons import sketch
from gpubuild.scons.node import Node
from gpubuild.support.text import visible

if TYPE_CHECKING:
    from gpubuild.scons.session import Session


class Front:
    """A project and its build folder, as nodes that can be run. Paths are absolute.

    Raises ``ConfigError`` and ``UsageError`` when there is no sketch and the project cannot be opened.
    """

    def __init__(self, file: str, build_dir: str, jobs: int, *, use_cache: bool) -> None:
        self.file = file
        self.known: set[str] = set()  # ids of steps that SCons has
        self._build_dir = build_dir
        self._jobs = jobs
        self._use_cache = use_cache
        self._asked: dict[str, None] = {}  # programs, in order
        self._opening = threading.Lock()
        self._session: Session | None = None
        self._failure: GpubuildError | None = None
        self._sketch = sketch.read(file, build_dir)
        if self._sketch is None:
            self.session()
        else:
            for message in self._sketch.warnings:
                print(f"gpubuild: warning: {visible(message)}", file=sys.stderr)

    def programs(self) -> list[str]:
        """Names of the project's programs, in file order."""
        if self._session is None and self._sketch is not None:
            return self._sketch.all_programs
        return list(self.session().project.programs)

    def nodes(self, program: str) -> list[Node]:
        """The steps of a program, producers first. Raises ``UsageError`` and ``StepError``."""
        if self._session is None and self._sketch is not None:
            nodes = self._sketch.nodes(program)
            if nodes is not None:
                self._asked[program] = None
                return nodes
        nodes = self.session().nodes(program)
        self._asked[program] = None
        return nodes

    def link(self, node: Node, objects: list[Any]) -> Node:
        """The link step with more to link, nodes of SCons, as if listed last under ``sources:``."""
        return self.session().link_too(node, objects)

    def run(self, node: Node) -> GpubuildError | None:
        """Bring a step up to date; called from SCons' job threads. What went wrong is returned."""
        try:
            return self.session().run(node)
        except GpubuildError as error:
            return error

    def session(self) -> Session:
        """The session, opened on first use. Raises ``ConfigError``, ``UsageError`` and ``StepError``.

        Opening takes the build folder's lock and forks; what SCons got from the sketch is planned.
        A failure stays one: a second opening would wait for the lock that the first one has.
        """
        with self._opening:
            if self._failure is not None:
                raise self._failure
            if self._session is None:
                from gpubuild.scons.session import Session

                try:
                    session = Session(self.file, self._build_dir, self._jobs, use_cache=self._use_cache)
                    for program in self._asked:
                        session.nodes(program, as_sketched=True)
                except GpubuildError as error:
                    self._failure = error
                    raise
                self._session = session
            return self._session


_fronts: dict[str, Front] = {}


def front_of(file: str, build_dir: str, jobs: int, *, use_cache: bool) -> Front:
    """The front of ``build_dir``, made on first use.

    Raises ``ConfigError`` and ``UsageError``, also when two project files share a build folder.
    """
    front = _fronts.get(build_dir)
    if front is None:
        front = _fronts[build_dir] = Front(file, build_dir, jobs, use_cache=use_cache)
    if front.file != file:
        raise UsageError(
            f"{file} and {front.file} would both build in {build_dir}",
            hint="give one of them another folder: env.GpuProgram(…, GPUBUILD_DIR='build2')",
        )
    return front
