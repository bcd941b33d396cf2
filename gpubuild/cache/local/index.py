"""Index: key → record bytes in diskcache's SQLite file, read by us and changed through diskcache.

Index errors: what can be wrong with the index. Apart from it, because it imports sqlite3.

Index writer: changes the index through diskcache. The only user of diskcache.

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
from typing import TYPE_CHECKING, NoReturn, Protocol

import diskcache
from diskcache.core import MODE_RAW

if TYPE_CHECKING:
    pass


class DamagedIndexError(Exception):
    """The database is corrupt and must be set aside."""


class UnavailableIndexError(Exception):
    """The database is locked, unwritable, full or on a file system without locks."""


class MalformedRowError(ValueError):
    """A row is not one of ours."""


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


DATABASE = "cache.db"
_BUSY_SECONDS = 5.0
_MODE_RAW = 1  # diskcache.core.MODE_RAW: the value is in the row
_ROW = "SELECT mode, filename, value FROM Cache WHERE key = ? AND raw = 1"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Cache'"
# Errors of a database that will not go away by itself (sqlite.org/rescode.html): ERROR (a missing
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


class WritableIndex:
    """The index in ``folder`` (which exists), created when it is not there.

    It reads by itself: diskcache, its import and its forty statements at opening, would be as much
    as twenty hits to a build that finds all in the cache. Changes go through it.
    """

    def __init__(self, folder: Path) -> None:
        if os.path.expandvars(folder) != str(folder):
            # diskcache would quietly open another folder.
            raise UnavailableIndexError("its path contains the name of an environment variable after a $")
        self._folder = folder
        self._writer: IndexWriter | None = None
        with _translated():
            _probe(folder / DATABASE)
            self._reader = sqlite3.connect(
                folder / DATABASE, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # A mapped file that is truncated kills the process with SIGBUS.
            self._reader.execute("PRAGMA mmap_size = 0").fetchall()
            if not self._reader.execute(_HAS_TABLE).fetchall():
                self._open_writer()

    def _open_writer(self) -> IndexWriter:
        if self._writer is None:
            pass

            self._writer = IndexWriter(self._folder, busy_seconds=_BUSY_SECONDS)
        return self._writer

    def read(self, key: str) -> bytes | None:
        """See ``Index``."""
        with _translated():
            return _read(self._reader, key)

    def write(self, key: str, value: bytes) -> None:
        """See ``Index``."""
        with _translated():
            self._open_writer().write(key, value)

    def delete(self, key: str) -> None:
        """See ``Index``."""
        with _translated():
            self._open_writer().delete(key)

    def list_keys(self) -> list[str]:
        """See ``Index``."""
        with _translated():
            return self._open_writer().list_keys()

    def clear(self) -> None:
        """See ``Index``."""
        with _translated():
            self._open_writer().clear()

    def close(self) -> None:
        """See ``Index``."""
        with suppress(Exception):
            self._reader.close()
        if self._writer is not None:
            self._writer.close()


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
            return _read(self._connection, key)

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


def _read(connection: sqlite3.Connection, key: str) -> bytes | None:
    """The value in the row of ``key``, which must be of the one kind that ``index_writer`` writes."""
    rows = connection.execute(_ROW, (key,)).fetchall()
    if not rows:
        return None
    mode, filename, value = rows[0]
    if mode != _MODE_RAW or filename is not None or type(value) is not bytes:
        raise MalformedRowError("a value that is not bytes")
    return value


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
    except (MalformedRowError, UnavailableIndexError):
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None and isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError):
            raise UnavailableIndexError(str(error)) from error  # the database has no part in it
        if code is None or code & 0xFF in _DAMAGE_CODES:
            raise DamagedIndexError(str(error)) from error
        raise UnavailableIndexError(str(error)) from error
    except OSError as error:
        raise UnavailableIndexError(error.strerror or str(error)) from error
    except (ImportError, MemoryError) as error:
        raise UnavailableIndexError(f"{type(error).__name__}: {error}") from error
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
