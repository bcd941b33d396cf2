"""Index writer: changes the index through diskcache. The only user of diskcache.

diskcache can unpickle what it reads (CVE-2025-69872) and open or delete files that a row names,
so the ``Disk`` used here knows one kind of row only: a text key and a value in the row itself.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import diskcache
from diskcache.core import MODE_RAW

from gpubuild.cache.local.index_errors import MalformedRowError, UnavailableIndexError

_MAX_VALUE_BYTES = 1 << 30  # above this diskcache would use a file beside the database


class _PlainDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Text keys, byte values in the row; anything else raises, pickle above all."""

    def put(self, key: object) -> tuple[str, bool]:
        if type(key) is not str:
            raise MalformedRowError("a key that is not text")
        return key, True

    def get(self, key: object, raw: object) -> str:
        # Only iteration comes here; a strange key is no digest, and no reason to stop.
        return key if raw and type(key) is str else ""

    def store(self, value: object, read: object, key: object = None) -> tuple[int, int, None, bytes]:
        if type(value) is not bytes or read or len(value) > _MAX_VALUE_BYTES:
            raise MalformedRowError("a value that is not bytes")
        return 0, MODE_RAW, None, value

    def fetch(self, mode: object, filename: object, value: object, read: object) -> bytes:
        if mode != MODE_RAW or filename is not None or type(value) is not bytes or read:
            raise MalformedRowError("a value that is not bytes")
        return value

    def filename(self, key: object = None, value: object = None) -> NoReturn:
        raise MalformedRowError("a value in a file of its own")

    def remove(self, file_path: object) -> None:
        """Delete nothing: no row of ours names a file, and others' rows are not trusted."""


class IndexWriter:
    """Changes of the database in ``folder``, whose tables are made when they are not there.

    Methods raise what SQLite and diskcache raise, but for a time-out: ``UnavailableIndexError``.
    """

    def __init__(self, folder: Path, *, busy_seconds: float) -> None:
        self._cache = diskcache.Cache(
            str(folder),
            timeout=busy_seconds,
            disk=_PlainDisk,
            eviction_policy="none",
            size_limit=1 << 62,
            cull_limit=0,
            statistics=0,
            tag_index=0,
            disk_min_file_size=_MAX_VALUE_BYTES,
            sqlite_mmap_size=0,  # a mapped file that is truncated kills the process with SIGBUS
        )

    def write(self, key: str, value: bytes) -> None:
        """Set the value of ``key``."""
        try:
            self._cache.set(key, value)
        except diskcache.Timeout as error:
            raise _locked() from error

    def delete(self, key: str) -> None:
        """Forget ``key``."""
        try:
            self._cache.delete(key)
        except diskcache.Timeout as error:
            raise _locked() from error

    def list_keys(self) -> list[str]:
        """All keys spelled as text."""
        return [key for key in self._cache if isinstance(key, str)]

    def clear(self) -> None:
        """Forget everything."""
        try:
            self._cache.clear()
        except diskcache.Timeout as error:
            raise _locked() from error

    def close(self) -> None:
        """Close this thread's connection."""
        with suppress(Exception):
            self._cache.close()


def _locked() -> UnavailableIndexError:
    return UnavailableIndexError("it is locked or cannot be written")
