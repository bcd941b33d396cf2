"""Index: key → record bytes in diskcache's SQLite file. The only user of diskcache.

diskcache can unpickle what it reads (CVE-2025-69872) and open or delete files that a row names,
so the ``Disk`` used here knows one kind of row only: a text key and a value in the row itself.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Protocol

import diskcache
from diskcache.core import MODE_RAW

from gpubuild.cache.index_errors import DamagedIndexError, MalformedRowError, UnavailableIndexError

DATABASE = "cache.db"
_BUSY_SECONDS = 5.0
_MAX_VALUE_BYTES = 1 << 30  # above this diskcache would use a file beside the database
# Errors of a database that will not heal by itself (sqlite.org/rescode.html): ERROR (a missing
# table or column), CORRUPT, SCHEMA, MISMATCH, FORMAT, NOTADB.
_DAMAGE_CODES = frozenset({1, 11, 17, 20, 24, 26})


class Index(Protocol):
    """A persistent mapping. Methods raise the exceptions of ``index_errors`` and no others."""

    def read(self, key: str) -> bytes | None:
        """The value of ``key``. Raises ``MalformedRowError`` if its row is not one of ours."""
        ...

    def write(self, key: str, value: bytes) -> None:
        """Set the value of ``key``."""
        ...

    def delete(self, key: str) -> None:
        """Forget ``key``."""
        ...

    def list_keys(self) -> list[str]:
        """All keys spelled as text."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...

    def close(self) -> None:
        """Close this thread's connection."""
        ...


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


class WritableIndex:
    """The index in ``folder`` (which exists), created when it is not there."""

    def __init__(self, folder: Path) -> None:
        if os.path.expandvars(folder) != str(folder):
            # diskcache would quietly open another folder.
            raise UnavailableIndexError("its path contains the name of an environment variable after a $")
        with _translated():
            _probe(folder / DATABASE)
            self._cache = diskcache.Cache(
                str(folder),
                timeout=_BUSY_SECONDS,
                disk=_PlainDisk,
                eviction_policy="none",
                size_limit=1 << 62,
                cull_limit=0,
                statistics=0,
                tag_index=0,
                disk_min_file_size=_MAX_VALUE_BYTES,
                sqlite_mmap_size=0,  # a mapped file that is truncated kills the process with SIGBUS
            )

    def read(self, key: str) -> bytes | None:
        """See ``Index``."""
        with _translated():
            value = self._cache.get(key)
        return value if isinstance(value, bytes) else None

    def write(self, key: str, value: bytes) -> None:
        """See ``Index``."""
        with _translated():
            self._cache.set(key, value)

    def delete(self, key: str) -> None:
        """See ``Index``."""
        with _translated():
            self._cache.delete(key)

    def list_keys(self) -> list[str]:
        """See ``Index``."""
        with _translated():
            return [key for key in self._cache if isinstance(key, str)]

    def clear(self) -> None:
        """See ``Index``."""
        with _translated():
            self._cache.clear()

    def close(self) -> None:
        """See ``Index``."""
        with suppress(Exception):
            self._cache.close()


class ReadOnlyIndex:
    """The same file on a medium that cannot be written, where diskcache itself does not open.

    ``immutable`` reads without locks or a write-ahead log. What another machine writes meanwhile
    may be seen half, which a record's checksum turns into a miss.
    """

    def __init__(self, folder: Path) -> None:
        path = urllib.parse.quote(str((folder / DATABASE).absolute()))
        with _translated():
            self._connection = sqlite3.connect(
                f"file:{path}?mode=ro&immutable=1", uri=True, check_same_thread=False
            )
            self._connection.execute("SELECT 1 FROM Cache LIMIT 1").fetchall()

    def read(self, key: str) -> bytes | None:
        """See ``Index``."""
        with _translated():
            rows = self._connection.execute(
                "SELECT value FROM Cache WHERE key = ? AND raw = 1 AND mode = ?", (key, MODE_RAW)
            ).fetchall()
        if not rows:
            return None
        if not isinstance(rows[0][0], bytes):
            raise MalformedRowError("a value that is not bytes")
        return rows[0][0]

    def write(self, key: str, value: bytes) -> None:
        """Raise ``UnavailableIndexError``."""
        raise UnavailableIndexError("it is read-only")

    def delete(self, key: str) -> None:
        """Raise ``UnavailableIndexError``."""
        raise UnavailableIndexError("it is read-only")

    def list_keys(self) -> list[str]:
        """See ``Index``."""
        with _translated():
            rows = self._connection.execute("SELECT key FROM Cache WHERE raw = 1").fetchall()
        return [key for (key,) in rows if isinstance(key, str)]

    def clear(self) -> None:
        """Raise ``UnavailableIndexError``."""
        raise UnavailableIndexError("it is read-only")

    def close(self) -> None:
        """See ``Index``."""
        with suppress(Exception):
            self._connection.close()


def _probe(path: Path) -> None:
    """Take and give back the write lock: diskcache would wait 60 s for one held by a dead client."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


@contextmanager
def _translated() -> Iterator[None]:
    """Turn what SQLite and diskcache raise into the exceptions of ``index_errors``."""
    try:
        yield
    except MalformedRowError:
        raise
    except diskcache.Timeout as error:
        raise UnavailableIndexError("it is locked or cannot be written") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None or code & 0xFF in _DAMAGE_CODES:
            raise DamagedIndexError(str(error)) from error
        raise UnavailableIndexError(str(error)) from error
    except OSError as error:
        raise UnavailableIndexError(error.strerror or str(error)) from error
    except Exception as error:
        # diskcache trusts its tables: odd values in them surface as TypeError, KeyError and so on.
        raise DamagedIndexError(f"{type(error).__name__}: {error}") from error


def identity(folder: Path) -> tuple[int, int] | None:
    """Which file the database in ``folder`` is; ``None`` when there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
