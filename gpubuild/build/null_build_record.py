"""Receipts of finished builds, written from what the build knows.

All files in a receipt were read by the build itself, except tools, which count only if they have not
changed since the build began.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpubuild import environment
from gpubuild.build import null_build
from gpubuild.build.include_scan import surroundings
from gpubuild.build.state import BuildState
from gpubuild.model.digest import digest_bytes
from gpubuild.model.project import Project, Variant
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.layout import PLACES
from gpubuild.plan.library_search import places, present
from gpubuild.plan.plan import Plan
from gpubuild.support import file_stamp
from gpubuild.support.files import delete_tree
from gpubuild.toolchain.find import Toolchain

_DONE = (Status.UP_TO_DATE, Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE)
_CLOCK_SLACK_SECONDS = 1.0
_LOCATED = re.compile(r"/(host_located|(located|named)\.\d+)\.mlir$")


def load_witnessed(file: Path, variant: Variant = Variant()) -> tuple[Project, Witness | None]:  # noqa: B008
    """Return the project, and a witness that saw the bytes it was loaded from.

    Raises ``ConfigError`` with every error in the file.
    """
    from gpubuild.config.load import load_project, loads

    known: dict[str, null_build.Known] = {}
    changed = []

    def read(path: Path) -> bytes:
        at = time.time_ns()
        before = file_stamp.stat_of(path)
        data = path.read_bytes()
        known[os.path.abspath(path)] = (before, at, digest_bytes(data))  # noqa: PTH100 - as loads()
        if file_stamp.stat_of(path) != before:
            changed.append(path)
        return data

    try:
        data = read(file)
    except OSError:
        return load_project(file, variant), None  # raises the right error
    witness = Witness(known)  # before anything else is read; included files are added
    project = loads(data, file, variant=variant, read=read)
    return project, None if changed else witness


class Witness:
    """Notes facts about the host when a build begins, and makes the receipt when it has succeeded.

    Create it before reading anything of the project or the tools. ``config`` are the project file and
    those that it includes, with stat data and digests from when they were read.
    """

    def __init__(self, config: Mapping[str, null_build.Known]) -> None:
        self._config = config
        self._host_facts = null_build.host_facts()
        self._boot = environment.boot()
        self._began_ns = time.time_ns()
        self._began = time.monotonic()

    def leave_receipt(
        self,
        *,
        request: null_build.Request,
        project: Project,
        plan: Plan,
        report: BuildReport,
        state: BuildState,
        toolchain: Toolchain,
    ) -> None:
        """Write a receipt for ``request`` if the build allows one, else remove it.

        Errors of writing are ignored: the next build only takes longer.
        """
        data = None
        if report.ok and not report.warnings and all(s.status in _DONE for s in report.steps):
            facts = {
                "steps": len(report.steps),
                "programs": [[name, str(path)] for name, path in report.executables.items()],
                "warnings": list(report.all_warnings),
            }
            show = {"steps": [_shown(step) for step in report.steps]}
            data = self.prove(
                request=request,
                project=project,
                plan=plan,
                state=state,
                toolchain=toolchain,
                facts=facts,
                show=show,
            )
        path = Path(null_build.path_for(request))
        with suppress(OSError):
            if any(step.status is not Status.UP_TO_DATE for step in report.steps) and path.parent.is_dir():
                delete_tree(path.parent)  # receipts of other requests are outdated
            if data is not None:
                null_build.write(str(path), data)
            else:
                path.unlink(missing_ok=True)

    def prove(
        self,
        *,
        request: null_build.Request,
        project: Project,
        plan: Plan,
        state: BuildState,
        toolchain: Toolchain,
        facts: dict[str, Any],
        show: dict[str, Any],
    ) -> bytes | None:
        """Return a proof that all inputs and outputs of ``plan`` are those in ``state``.

        It includes ``facts`` and ``show``. ``None`` when there can be no proof.
        """
        passed_ns = time.time_ns() - self._began_ns
        if abs(passed_ns / 1e9 - (time.monotonic() - self._began)) > _CLOCK_SLACK_SECONDS:
            return None  # the clock was set meanwhile
        if not self._boot:
            return None  # another CPU may round constants differently, or be another `native`
        files = self._step_files(plan, state)
        if files is None:
            return None
        files.update(self._config)
        found = _shadowing_paths(plan, state, project.root)
        if found is None:
            return None
        existing, absent = found
        used, looked_for = toolchain.evidence()
        for name in {*used, *looked_for, *map(str, named_files(project)), *existing}:
            if name in files:
                continue
            try:
                stat = file_stamp.stat_of(name)
            except OSError:
                absent.add(name)
                continue
            if not file_stamp.is_settled(stat, self._began_ns):
                return None
            files[name] = (stat, self._began_ns, "")
        if any(name in absent and self._may_have_vanished(Path(name)) for name in used):
            return None
        check = {
            "request": request,
            "scene": self._host_facts,
            "boot": self._boot,
            **facts,
            "files": null_build.pack_files(files),
            "doubtful": sorted(
                p for p, (stat, at, _) in files.items() if not file_stamp.is_settled(stat, at)
            ),
            "executables": sorted(
                str(step.output_path(output.name))
                for step in plan.steps.values()
                for output in step.outputs
                if output.executable
            ),
            "tables": {} if facts.get("warnings") else _tables(plan, state),  # warnings name lines
            "absent": sorted(absent),
            "patterns": [[folder, pattern, list(found)] for folder, pattern, found in project.patterns],
        }
        return null_build.dumps(check, show)

    def _may_have_vanished(self, path: Path) -> bool:
        """Whether a missing path may have existed when the build began."""
        for parent in path.parents:
            try:
                return not file_stamp.is_settled(file_stamp.stat_of(parent), self._began_ns)
            except OSError:
                continue
        return True

    def _step_files(self, plan: Plan, state: BuildState) -> dict[str, null_build.Known] | None:
        """Return all inputs, discovered inputs and outputs of the steps, if state and steps agree."""
        files: dict[str, null_build.Known] = {}
        for step in plan.steps.values():
            for path, digest in _contents(step, state):
                known = state.files.known(path)
                if known is None and state.files.digest(path):  # a header that only a worker has read
                    known = state.files.known(path)
                if known is None or (digest and known[2] != digest):
                    return None
                files[str(path)] = known
        return files


def _shadowing_paths(plan: Plan, state: BuildState, root: Path) -> tuple[set[str], set[str]] | None:
    """Return existing and missing paths that decide which files preprocessors and linkers read.

    ``None`` if one of them has been created or deleted since.
    """
    existing: set[str] = set()
    absent: set[str] = set()
    for step in plan.steps.values():
        if (link := step.link) is not None:
            candidates = places(link.libraries, link.flags)
            existing.update(now := present(candidates))
            absent.update(set(candidates).difference(now))
            if now != link.present:
                return None
        if step.kind is not StepKind.PREPROCESS:
            continue
        record = state.record(step.id)
        if record is None:
            return None
        found = surroundings(record.result.discovered, step, root)
        if not record.around or found.digest(root) != record.around:
            return None
        existing |= found.present
        absent |= found.absent
    return existing, absent


def _contents(step: Step, state: BuildState) -> Iterable[tuple[Path, str]]:
    """Yield the files of a step with the digests that its result depends on; "?" for an unknown one."""
    record = state.record(step.id)
    if record is None:
        yield Path(), "?"
        return
    for item in step.inputs:
        yield item.path, record.parts.get(f"input {item.name}", "?") if item.in_key else ""
    for text, digest in record.result.discovered:
        yield Path(text), digest
    for blob in record.result.blobs:
        yield step.output_path(blob.name), blob.digest


def _tables(plan: Plan, state: BuildState) -> dict[str, list[str]]:
    """Return the tables of places of each source of which nothing else depends on the numbers of lines."""
    tables: dict[str, list[str]] = {}
    read: set[str] = set()  # by steps that do not outline
    for step in plan.steps.values():
        if step.kind is StepKind.OUTLINE:
            table = str(step.output_path(PLACES))
            tables.setdefault(str(step.inputs[0].path), []).append(table)
        else:
            read.update(str(item.path) for item in step.inputs if item.in_key)
            record = state.record(step.id)
            read.update(path for path, _ in (record.result.discovered if record else ()))
    located = {os.path.dirname(path) for path in read if _LOCATED.search(path)}  # noqa: PTH120 - of many
    return {
        source: found
        for source, found in tables.items()
        if source not in read and not any(os.path.dirname(table) in located for table in found)  # noqa: PTH120
    }


def named_files(project: Project) -> Iterable[Path]:
    """Yield the files that the project file names."""
    yield from project.included
    for entry in project.generate:
        yield from (entry.tool, *entry.searched, *entry.inputs.values())
    for target in project.targets.values():
        yield from target.device_libs
    for program in project.programs.values():
        yield from program.sources
        for libraries in program.device_libs.values():
            yield from libraries
        for override in program.modules.values():
            yield from override.device_libs


def _shown(step: StepReport) -> list[Any]:
    return [step.id, step.kind.value, step.module, step.target, [str(p) for p in step.outputs]]
