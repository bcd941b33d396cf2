"""Index: key → record bytes in diskcache's SQLite file, read by us and changed through diskcache."""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpubuild.cache.local.index_errors import DamagedIndexError, MalformedRowError, UnavailableIndexError

if TYPE_CHECKING:
    from gpubuild.cache.local.index_writer import IndexWriter

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
            from gpubuild.cache.local.index_writer import IndexWriter

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
