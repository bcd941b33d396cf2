"""File digests: the content of files, read again only when their stat data have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpubuild.build.null_build import Known
from gpubuild.model.digest import Digest, digest_file, is_digest
from gpubuild.support.file_stamp import is_settled, stat_of


class FileDigests:
    """Content digests of files, remembered by (size, mtime, ctime, inode).

    An entry is trusted only when the file was already older than a clock tick when it was
    digested, by modification and by change time (the latter no program can set); a time in the
    future is never trusted.
    """

    def __init__(self) -> None:
        self.changed = False  # since it was loaded or dumped
        self._known: dict[str, Known] = {}
        self._fresh: set[str] = set()  # digested or written by this process

    def digest(self, path: Path) -> Digest | None:
        """The digest of ``path`` now, or ``None`` when it is not a readable file."""
        try:
            name = str(path)
            now = time.time_ns()
            before = stat_of(name)
            known = self._known.get(name)
            # Within one process a racy entry will do: workers verify the bytes they use.
            if known and known[0] == before and (name in self._fresh or is_settled(before, known[1])):
                return Digest(known[2])
            if not path.is_file():  # opening a pipe would wait for a writer
                return None
            found = digest_file(path)
            if stat_of(name) != before:  # written while being read: believe nothing
                self.forget(path)
                return found
        except OSError:
            return None
        self.changed = True
        self._known[name] = (before, now, found)
        self._fresh.add(name)
        return found

    def known(self, path: Path) -> Known | None:
        """What is remembered of ``path``, without looking at it again."""
        return self._known.get(str(path))

    def note(self, path: Path, digest: Digest) -> None:
        """Remember the digest of a file that this process has just written itself."""
        self.changed = True
        try:
            self._known[str(path)] = (stat_of(path), time.time_ns(), digest)
            self._fresh.add(str(path))
        except OSError:
            self._known.pop(str(path), None)

    def forget(self, path: Path) -> None:
        """Drop what is known of ``path``."""
        self.changed = True
        self._known.pop(str(path), None)

    def dump(self) -> dict[str, Any]:
        """For the state file."""
        return {path: [list(stat), at, digest] for path, (stat, at, digest) in self._known.items()}

    def load(self, data: Mapping[str, Any]) -> None:
        """From the state file. Raises ``ValueError``/``TypeError`` when malformed."""
        for path, (stat, at, digest) in data.items():
            size, mtime, ctime, inode = (int(x) for x in stat)
            if not is_digest(digest):
                raise ValueError(digest)
            self._known[str(path)] = ((size, mtime, ctime, inode), int(at), Digest(digest))
