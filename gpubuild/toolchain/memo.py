"""Digests of large files and facts about compilers, stored until the file changes."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from gpubuild.model.digest import digest_file
from gpubuild.support.file_stamp import stat_of
from gpubuild.support.files import write_atomically

_SCHEMA = 1
_MOST_SHARED = 4000
_Value = TypeVar("_Value")


class Memo:
    """Digests and facts in one JSON file; with ``None`` in memory only.

    An entry is valid while path, size, modification and change time and inode are equal. No program
    can set the change time, so a file swapped with its old modification time is noticed. A memo
    that cannot be read or is malformed counts as empty.

    ``shared`` is a second file, for all projects of a user: a new checkout starts with its entries.
    Processes that write it at once may lose each other's entries, which costs time. A file that
    another user could have written is ignored.
    """

    def __init__(self, path: Path | None, shared: Path | None = None) -> None:
        self._path = path
        self._shared = shared
        self._digests: dict[str, str] = {}
        self._facts: dict[str, object] = {}
        self._changed = False
        self.seen: set[str] = set()  # every requested file, existing or not
        for file in (shared, path):
            if file is not None:
                digests, facts = _load(file)
                self._digests.update(digests)
                self._facts.update(facts)

    def digest(self, path: Path) -> str:
        """Return the SHA-256 of the file's content. Raises ``OSError`` when it cannot be read."""
        self.seen.add(str(path))
        key = _identity(path)
        if key not in self._digests:
            self._digests[key] = digest_file(path)
            self._changed = True
        return self._digests[key]

    def fact(self, kind: str, path: Path) -> object:
        """Return the value that :meth:`learn` stored for this file, ``None`` if it has changed."""
        self.seen.add(str(path))
        return self._facts.get(f"{kind}|{_identity(path)}")

    def learn(self, kind: str, path: Path, value: object) -> None:
        """Remember ``value``, a JSON value, about ``path``."""
        self._facts[f"{kind}|{_identity(path)}"] = value
        self._changed = True

    def save(self) -> None:
        """Write new entries; ignore errors, which only cost time later."""
        if not self._changed:
            return
        self._changed = False
        if self._path is not None:
            _write(self._path, self._digests, self._facts)
        if self._shared is not None:
            digests, facts = _load(self._shared)
            _write(self._shared, _newest(digests | self._digests), _newest(facts | self._facts))


def _load(path: Path) -> tuple[dict[str, str], dict[str, object]]:
    """Return digests and facts of a memo file that only this user can write, else none."""
    try:
        with path.open("rb") as stream:
            stat = os.fstat(stream.fileno())
            if stat.st_uid != os.geteuid() or stat.st_mode & 0o022:
                return {}, {}
            document = json.loads(stream.read())
    except (OSError, ValueError, RecursionError):
        return {}, {}
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return {}, {}
    digests, facts = document.get("digests"), document.get("facts")
    if not isinstance(digests, dict) or not all(
        isinstance(v, str) and len(v) == 64 for v in digests.values()
    ):
        digests = {}
    return digests, facts if isinstance(facts, dict) else {}


def _write(path: Path, digests: dict[str, str], facts: dict[str, object]) -> None:
    document = {"schema": _SCHEMA, "digests": digests, "facts": facts}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(document), mode=0o600)


def _newest(entries: dict[str, _Value]) -> dict[str, _Value]:
    """Return the last entry of every file, and only the newest of those: installations change."""
    last = {key.rsplit("|", 4)[0]: key for key in entries}
    return {key: entries[key] for key in list(last.values())[-_MOST_SHARED:]}


def _identity(path: Path) -> str:
    stamp = "|".join(map(str, stat_of(path)))
    # Called for a hundred files in a few folders: each folder is resolved once. If it becomes a link
    # meanwhile, the name is outdated, but inode and times are current.
    folder, name = os.path.split(path)
    real = f"{_resolved(folder)}{os.sep}{name}"
    return f"{real}|{stamp}"


@lru_cache(maxsize=512)
def _resolved(folder: str) -> str:
    return os.path.realpath(folder)
