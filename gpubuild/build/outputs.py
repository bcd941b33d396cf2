"""Outputs: the files that steps make in the build folder, and whether they are still what they were.

A file gets there by a rename, so that nobody ever reads half of one, and its digest is known from then on.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from gpubuild.build.include_scan import around
from gpubuild.build.state import BuildState, StepRecord
from gpubuild.cache.store import Store
from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Step, StepKind
from gpubuild.support.text import shown_path


class StepOutputs:
    """Files of steps; messages name them relative to ``root``."""

    def __init__(self, *, state: BuildState, store: Store, root: Path) -> None:
        self._state = state
        self._store = store
        self._root = root

    def stale(self, step: Step, record: StepRecord) -> str:
        """Why the outputs on disk are not those of ``record``, or an empty string."""
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
            now = around(step, result, self._root)
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
            target.parent.mkdir(parents=True, exist_ok=True)
            source = made / blob.name
            source.chmod(0o755 if blob.executable else 0o644)
            source.replace(target)
            self._state.files.note(target, blob.digest)

    def fetch(self, step: Step, key: Digest, result: ActionResult) -> bool:
        """Have the cache put ``result`` in place; False, and the entry is dropped, if it cannot."""
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
            if not self._store.fetch(blob, path):
                self._store.discard(key)
                return False
            self._state.files.note(path, blob.digest)
        return True

    def copy(self, made_by: Step, step: Step, result: ActionResult, scratch: Path) -> bool:
        """Copy ``result`` of an equal step by way of folder ``scratch``; False if it is no more there."""
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

    def remove(self, step: Step) -> None:
        """Delete what an earlier build made of ``step``; the cache still has it if it was good.

        What it was made of stays known: the next build can tell what is different since then.
        """
        record = self._state.record(step.id)
        names = [b.name for b in record.result.blobs] if record else [o.name for o in step.outputs]
        for name in names:
            path = step.output_path(name)
            with suppress(IsADirectoryError):  # a folder in its place is the user's
                path.unlink(missing_ok=True)
            self._state.files.forget(path)

    @staticmethod
    def _empty(step: Step) -> None:
        """Make room in the folder of a step whose outputs have names of its own choice."""
        if step.dynamic_dir is not None and step.dynamic_dir.exists():
            import shutil  # loads bz2 and lzma, for nothing in a new checkout

            shutil.rmtree(step.dynamic_dir, ignore_errors=True)
