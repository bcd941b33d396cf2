"""Outputs of steps in the build folder: checked, put in place, fetched, copied, removed.

A file is put in place by a rename, so no process reads half of one. Leftovers are outputs of
programs, modules and targets that no longer exist. One is deleted only if a step of this project
file made it, no step makes or reads it now, and its content is unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gpubuild.build.include_scan import surroundings_digest
from gpubuild.build.state import BuildState, StepRecord
from gpubuild.cache.local.blobs import DestinationError
from gpubuild.cache.store import Store
from gpubuild.model.digest import Digest
from gpubuild.model.project import Program, Project
from gpubuild.model.step import ActionResult, Step, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.support.files import delete_tree
from gpubuild.support.text import shown_path


class StepOutputs:
    """Files of steps; messages name them relative to ``root``."""

    def __init__(self, *, state: BuildState, store: Store, root: Path) -> None:
        self._state = state
        self._store = store
        self._root = root

    def stale(self, step: Step, record: StepRecord) -> str:
        """Return why the outputs on disk are not those of ``record``, or an empty string."""
        result = record.result
        for blob in result.blobs:
            path = step.output_path(blob.name)
            digest = self._state.files.digest(path)
            if digest is None:
                return f"output {path.name} had been deleted"
            if digest != blob.digest:
                return f"output {path.name} had been edited"
            if blob.executable and not path.stat().st_mode & 0o100:
                return f"output {path.name} was not executable any more"
        for text, digest in result.discovered:
            found = self._state.files.digest(Path(text))
            if found != digest:
                what = "header" if step.kind is StepKind.PREPROCESS else "file"
                return f"{what} {shown_path(text, self._root)} {'changed' if found else 'is gone'}"
        if step.kind is StepKind.PREPROCESS:
            now = surroundings_digest(step, result, self._root)
            if not now:
                return "it asks which files exist (__has_include or __has_embed)"
            if now != record.around:
                return "headers may be found elsewhere now"
        return ""

    def place(self, step: Step, result: ActionResult, made: Path) -> None:
        """Move what a worker made in folder ``made``. Raises ``OSError``."""
        self._empty(step)
        for blob in result.blobs:
            target = step.output_path(blob.name)
            source = os.path.join(made, blob.name)
            os.chmod(source, 0o755 if blob.executable else 0o644)
            try:
                os.replace(source, target)
            except FileNotFoundError:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(source, target)
            self._state.files.note(target, blob.digest)

    def fetch(self, step: Step, key: Digest, result: ActionResult) -> bool:
        """Fetch ``result`` from the cache; False if that fails. Discard an entry that is not whole."""
        names = {b.name for b in result.blobs}
        whole = {"index.json"} <= names if step.dynamic_dir else names == {o.name for o in step.outputs}
        if not whole:
            self._store.discard(key)
            return False
        self._empty(step)
        for blob in result.blobs:
            try:
                path = step.output_path(blob.name)
            except KeyError:
                self._store.discard(key)
                return False
            if self._state.files.digest(path) == blob.digest and not blob.executable:
                continue
            try:
                if not self._store.fetch(blob, path):
                    self._store.discard(key)
                    return False
            except DestinationError:  # other builds can use the entry
                return False
            self._state.files.note(path, blob.digest)
        return True

    def copy(self, made_by: Step, step: Step, result: ActionResult, scratch: Path) -> bool:
        """Copy ``result`` of an equal step through folder ``scratch``; False if a file has changed."""
        if step.dynamic_dir is not None:
            return False
        for blob in result.blobs:
            source, target = made_by.output_path(blob.name), step.output_path(blob.name)
            if self._state.files.digest(source) != blob.digest:
                return False
            target.parent.mkdir(parents=True, exist_ok=True)
            import shutil

            shutil.copy(source, scratch / "copy")
            (scratch / "copy").replace(target)
            if self._state.files.digest(target) != blob.digest:
                return False
        return True

    def remove(self, step: Step) -> tuple[str, ...]:
        """Delete the outputs that an earlier build made for ``step``; the cache keeps good ones.

        The record stays, so that the next build can explain what changed. Return a warning if the product
        of a program cannot be deleted, since users run it without a build.
        """
        kept = []
        record = self._state.record(step.id)
        chosen = record if step.dynamic_dir is not None else None
        names = [b.name for b in chosen.result.blobs] if chosen else [o.name for o in step.outputs]
        for name in names:
            path = step.output_path(name)
            try:
                path.unlink(missing_ok=True)
            except IsADirectoryError:  # it is the user's
                pass
            except OSError as error:
                kept.append(f"{shown_path(path)} is outdated and cannot be deleted: {error.strerror}")
            self._state.files.forget(path)
        return tuple(kept) if step.kind is StepKind.LINK else ()

    @staticmethod
    def _empty(step: Step) -> None:
        """Delete the folder of a step that chooses the names of its outputs."""
        if step.dynamic_dir is not None and not step.dynamic_dir.is_symlink():
            delete_tree(step.dynamic_dir)


def remove_leftovers(
    state: BuildState, *, layout: Layout, project: Project, plan: Plan, built: Collection[str]
) -> list[Path]:
    """Delete outputs of steps that no longer exist, and folders that become empty. Return the files.

    ``plan`` has every step of the programs ``built``; other programs of ``project`` are unknown.
    """

    def is_known(file: str, program: str) -> bool:
        return file == str(project.file) and (program in built or program not in project.programs)

    gone = {
        step_id: record
        for step_id, record in state.records().items()
        if record.origin is not None
        and step_id not in plan.steps
        and is_known(record.origin.file, record.origin.program)
    }
    orphans = {path: o for path, o in state.orphans.items() if is_known(o.file, o.program)}
    if not gone and not orphans:
        return []
    needed = {str(item.path) for step in plan.steps.values() for item in step.inputs}
    needed |= {str(output.path) for step in plan.steps.values() for output in step.outputs}
    needed |= {str(source) for program in project.programs.values() for source in program.sources}
    for step_id, record in state.records().items():
        if step_id not in gone and record.origin is not None:
            needed.update(record.origin.outputs)
    made = {path: orphan.digest for path, orphan in orphans.items()}
    for step_id, record in gone.items():
        state.forget(step_id)
        outputs = record.origin.outputs if record.origin else ()
        made.update((path, b.digest) for path, b in zip(outputs, record.result.blobs, strict=False))
    state.forget_orphans(orphans)
    removed = []
    for text, digest in made.items():
        path = Path(text)
        if text in needed or not layout.owns(path) or state.files.digest(path) != digest:
            continue
        with suppress(OSError):
            path.unlink()
            removed.append(path)
        state.files.forget(path)
    for path in removed:
        _remove_empty(path.parent, layout)
    return removed


def remove_ungenerated(layout: Layout, project: Project) -> None:
    """Delete files that no command of ``generate:`` makes any more: C sources could still include them."""
    made = {name for entry in project.generate for name in entry.outputs}
    with suppress(FileNotFoundError):
        for path in layout.generated.iterdir():
            if path.name not in made and not path.is_dir():
                path.unlink()


def remove_product(state: BuildState, *, layout: Layout, project: Project, program: Program) -> None:
    """Delete the product that an earlier build linked, if it is unchanged; the cache keeps it."""
    record = state.record(f"{program.name}/link")
    path = layout.product(program)
    if (
        record is not None
        and record.origin is not None
        and record.origin.file == str(project.file)
        and layout.owns(path)
        and state.files.digest(path) in {blob.digest for blob in record.result.blobs}
    ):
        with suppress(OSError):
            path.unlink()
        state.files.forget(path)


def _remove_empty(folder: Path, layout: Layout) -> None:
    with suppress(OSError):
        while layout.build_dir in folder.parents:
            folder.rmdir()
            folder = folder.parent
