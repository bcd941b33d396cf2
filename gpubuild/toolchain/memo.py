"""Memo: digests of large files and facts about compilers, kept until the file changes."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from gpubuild.model.digest import digest_file

_SCHEMA = 1


class Memo:
    """What was learnt about files, in one JSON file; ``None`` keeps it in memory only.

    An entry counts while path, size, modification and change time and inode are the same. The
    change time cannot be set by a program, so a file swapped with its old modification time is
    seen. A memo that cannot be read, or is not what we write, is an empty one.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._digests: dict[str, str] = {}
        self._facts: dict[str, object] = {}
        self._changed = False
        self.seen: set[Path] = set()  # every file that was asked about, there or not
        if path is not None:
            self._load(path)

    def digest(self, path: Path) -> str:
        """SHA-256 of the file's content. Raises ``OSError`` when it cannot be read."""
        self.seen.add(path)
        key = _identity(path)
        if key not in self._digests:
            self._digests[key] = digest_file(path)
            self._changed = True
        return self._digests[key]

    def fact(self, kind: str, path: Path) -> object:
        """What :meth:`learn` was told about this file, ``None`` when nothing or it changed."""
        self.seen.add(path)
        return self._facts.get(f"{kind}|{_identity(path)}")

    def learn(self, kind: str, path: Path, value: object) -> None:
        """Remember ``value`` (anything JSON can hold) about ``path``."""
        self._facts[f"{kind}|{_identity(path)}"] = value
        self._changed = True

    def save(self) -> None:
        """Write what is new; a memo that cannot be written costs time later, and nothing else."""
        if self._path is None or not self._changed:
            return
        document = {"schema": _SCHEMA, "digests": self._digests, "facts": self._facts}
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".tools-")
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                    json.dump(document, stream, indent=0, sort_keys=True)
                Path(name).replace(self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self._changed = False

    def _load(self, path: Path) -> None:
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return
        if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
            return
        digests, facts = document.get("digests"), document.get("facts")
        if isinstance(digests, dict) and all(isinstance(v, str) and len(v) == 64 for v in digests.values()):
            self._digests = digests
        if isinstance(facts, dict):
            self._facts = facts


def _identity(path: Path) -> str:
    real = path.resolve()
    stat = real.stat()
    return f"{real}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}|{stat.st_ino}"
