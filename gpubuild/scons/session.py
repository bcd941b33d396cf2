"""The open build of a build folder, which all SCons nodes of that folder share."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from gpubuild.build import null_build
from gpubuild.build.builder import Builder
from gpubuild.build.null_build_record import load_witnessed
from gpubuild.build.opening import execute_settings, open_builder
from gpubuild.build.state import StepRecord
from gpubuild.build.step_runner import ABSENT
from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.events import BuildWarning, Event
from gpubuild.model.project import BuildOptions, Project, Variant
from gpubuild.model.step import Input, LibraryParams, LinkParams, Step, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.scons import sketch
from gpubuild.scons.node import Node, Request, node_of
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace
from gpubuild.support.text import visible

_CXX = frozenset({".cpp", ".cc", ".cxx", ".C", ".c++"})


def link_too(step: Step, objects: list[Any]) -> Step:
    """Return the link step with further objects, nodes of SCons, as if listed last under ``sources:``."""
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
        params = step.params
        if isinstance(params, LibraryParams):
            params = replace(params, link=replace(params.link, cxx=True))
        elif isinstance(params, LinkParams):
            params = replace(params, cxx=True)
        step = replace(step, params=params, tools=tools)
    return step


# Their outputs decide what the nodes are.
_SCANNED = frozenset({StepKind.GENERATE, StepKind.OUTLINE, StepKind.PREPROCESS})


def changed(what: str) -> StepError:
    """Return the error for a plan that differs from the one that SCons has."""
    return StepError(f"{what}: the project has changed since scons began", hint="run scons again")


class Session:
    """A project, its builder, and the steps of the requested programs.

    The builder keeps the lock of the build folder and its workers until SCons ends. Then a sketch is
    written if everything is up to date.
    """

    def __init__(self, asked: Request) -> None:
        self.project: Project
        profile, defines = asked.variant
        variant = Variant(profile=profile, defines=tuple(defines))
        self.project, self._witness = load_witnessed(Path(asked.file), variant)
        self._asked = asked
        self.layout = Layout(root=self.project.root, build_dir=Path(asked.build_dir))
        settings = Settings.from_environ()
        self._fingerprints: dict[str, str] = {}
        self._programs: dict[str, list[Node]] = {}
        self._steps: dict[str, Step] = {}
        self._nodes: dict[str, Node] = {}
        self._scanned: dict[str, StepRecord | None] = {}  # when their nodes were made
        self._planned = False  # some program was not in the sketch
        self._links_more = False  # an executable has objects of other builders
        self._warned: set[str] = set()
        self._printing = threading.Lock()
        self._open = ExitStack()
        request = BuildOptions(
            build_dir=self.layout.build_dir,
            jobs=asked.jobs,
            use_cache=asked.use_cache,
            executor=asked.executor,
        )
        if execute_settings(self.project.execute, settings, request) is not None:
            # Then -j counts steps that wait for workers, too.
            request = replace(request, jobs=min(asked.jobs, len(os.sched_getaffinity(0))))
        self._builder: Builder = self._open.enter_context(
            open_builder(self.project, settings, request, self, witness=self._witness)
        )
        atexit.register(self.close)

    def close(self) -> None:
        """Save the state, log the build, write a sketch, stop the workers and unlock the folder."""
        try:
            plan = Plan(self._steps.values())
            self._builder.conclude(plan)
            self._write_sketch(plan)
        finally:
            self._open.close()

    def nodes(self, program: str, *, as_sketched: bool = False) -> list[Node]:
        """Return the steps of one program, producers first. Raises ``UsageError`` and ``StepError``.

        With ``as_sketched`` no source is scanned, since other builders may be writing some: the sketch
        has proved that the modules are unchanged since SCons began.
        """
        if program not in self._programs:
            self._planned = self._planned or not as_sketched
            try:
                plan = self._builder.scan((program,), run=not as_sketched)
            except OSError as error:
                raise changed(program) from error
            for step_id, step in plan.steps.items():
                if step_id not in self._steps:
                    self._add(step)
            self._programs[program] = [self._nodes[step_id] for step_id in plan.order()]
        return self._programs[program]

    def link_too(self, node: Node, objects: list[Any]) -> Node:
        """Return the link step with further objects, nodes of SCons."""
        self._links_more = True
        self._add(link_too(self._steps[node.id], objects))
        return self._nodes[node.id]

    def run(self, node: Node) -> GpubuildError | None:
        """Bring a step up to date and return its error; called from the job threads of SCons."""
        if self._nodes.get(node.id) != node:
            return changed(node.title)
        return self._builder.run_step(self._steps[node.id]).error

    def fingerprints(self, step: Step) -> list[tuple[str, str]]:
        """Return name and digest of every tool whose change must rebuild the step."""
        return [(name, self._fingerprint(name)) for name in (*step.tools, *step.optional_tools)]

    def on_event(self, event: Event) -> None:
        """Print each warning once; SCons prints the steps."""
        if isinstance(event, BuildWarning):
            with self._printing:
                if event.message not in self._warned:
                    self._warned.add(event.message)
                    print(f"gpubuild: warning: {visible(event.message)}", file=sys.stderr)

    def _add(self, step: Step) -> None:
        if step.kind in _SCANNED:
            self._scanned[step.id] = self._builder.state.record(step.id)
        self._steps[step.id] = step
        node = node_of(self, step)
        record = self._builder.state.record(step.id)
        if step.kind is not StepKind.PREPROCESS and record is not None and record.result.discovered:
            # For example linked libraries. SCons would report a missing one as a missing source.
            read = [path for path, _ in record.result.discovered]
            existing = tuple(path for path in read if Path(path).exists())
            gone = ", ".join(sorted(set(read) - set(existing))).replace("$", "$$")
            node = replace(node, headers=existing, signature=f"{node.signature}; gone={gone}")
        self._nodes[step.id] = node

    def _write_sketch(self, plan: Plan) -> None:
        """Store the nodes, so that the next SCons needs no planning. Errors are ignored."""
        if not (self._planned or self._links_more):
            return  # the old sketch stays valid: it proves by content
        data = None
        records = [self._builder.state.record(step_id) for step_id in self._scanned]
        # A source may have been edited, and split again, after its nodes were made.
        same = all(
            now is not None and before is not None and (now.key, now.result) == (before.key, before.result)
            for before, now in zip(self._scanned.values(), records, strict=True)
        )
        if same and self._witness is not None and not self._links_more:
            warnings = dict.fromkeys(w for record in records if record for w in record.result.warnings)
            folders = (str(s.dynamic_dir) for s in self._steps.values() if s.dynamic_dir)
            data = self._witness.prove(
                request=sketch.request(self._asked),
                project=self.project,
                plan=plan,
                state=self._builder.state,
                toolchain=self._builder.toolchain,
                facts={"steps": len(self._steps), "programs": [], "warnings": list(warnings)},
                show=sketch.document(self.project.programs, self._programs, folders),
            )
        path = sketch.path_for(self._asked)
        with suppress(OSError):
            if data is not None:
                null_build.write(path, data)
            else:
                Path(path).unlink(missing_ok=True)

    def _fingerprint(self, name: str) -> str:
        if name not in self._fingerprints:
            tool = self._builder.toolchain.find(name)
            self._fingerprints[name] = tool.fingerprint if tool else ABSENT
        return self._fingerprints[name]
