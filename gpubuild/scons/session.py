"""Session: the one open build per build folder that all SCons nodes of that folder share."""

from __future__ import annotations

import atexit
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

from gpubuild.build import Builder, BuildOptions, open_builder
from gpubuild.config.load import load_project
from gpubuild.events import BuildWarning, Event
from gpubuild.graph.layout import Layout
from gpubuild.graph.plan import Plan
from gpubuild.model.project import Project
from gpubuild.model.result import StepReport
from gpubuild.model.step import Step
from gpubuild.settings import Settings

_ABSENT = "absent"


class Session:
    """A project, its builder, and the steps that already are SCons nodes.

    The builder holds the build folder's lock and its worker processes until SCons ends.
    """

    def __init__(self, file: Path, build_dir: Path, jobs: int, *, use_cache: bool = True) -> None:
        self.project: Project = load_project(file)
        self.layout = Layout(root=self.project.root, build_dir=build_dir)
        self.known: set[str] = set()  # ids of steps that have nodes
        settings = Settings.from_environ()
        self._fingerprints: dict[str, str] = {}
        self._plans: dict[str, Plan] = {}
        self._told: set[str] = set()
        self._printing = threading.Lock()
        self._open = ExitStack()
        request = BuildOptions(build_dir=build_dir, jobs=jobs, use_cache=use_cache)
        self._builder: Builder = self._open.enter_context(open_builder(self.project, settings, request, self))
        atexit.register(self.close)

    def close(self) -> None:
        """Save what was learnt, stop the workers, drop the lock."""
        try:
            self._builder.save()
        finally:
            self._open.close()

    def plan(self, program: str) -> Plan:
        """The steps of one program. Raises ``UsageError`` and ``StepError``."""
        if program not in self._plans:
            self._plans[program] = self._builder.scan((program,))
        return self._plans[program]

    def run(self, step: Step) -> StepReport:
        """Bring a step up to date; called from SCons' job threads."""
        return self._builder.run_step(step)

    def fingerprints(self, step: Step) -> list[tuple[str, str]]:
        """Name and digest of every tool whose change must rebuild the step."""
        return [(name, self._fingerprint(name)) for name in (*step.tools, *step.optional_tools)]

    def on_event(self, event: Event) -> None:
        """Show warnings, once each; SCons itself tells what is being built."""
        if isinstance(event, BuildWarning):
            with self._printing:
                if event.message not in self._told:
                    self._told.add(event.message)
                    print(f"gpubuild: warning: {event.message}", file=sys.stderr)

    def _fingerprint(self, name: str) -> str:
        if name not in self._fingerprints:
            tool = self._builder.toolchain.find(name)
            self._fingerprints[name] = tool.fingerprint if tool else _ABSENT
        return self._fingerprints[name]


_sessions: dict[Path, Session] = {}


def open_session(file: Path, build_dir: Path, jobs: int, *, use_cache: bool) -> Session:
    """The session of ``build_dir``, opened on first use.

    Raises ``ConfigError`` and ``UsageError``, also when two project files share a build folder.
    """
    from gpubuild.errors import UsageError

    session = _sessions.get(build_dir)
    if session is None:
        session = _sessions[build_dir] = Session(file, build_dir, jobs, use_cache=use_cache)
    if session.project.file != file:
        raise UsageError(
            f"{file} and {session.project.file} would both build in {build_dir}",
            hint="give one of them another folder: env.GpuProgram(…, GPUBUILD_DIR='build2')",
        )
    return session
