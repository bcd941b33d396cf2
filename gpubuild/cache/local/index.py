"""Index of the local cache: key → record bytes, in diskcache's SQLite file.

Rows are read with SQL, because loading diskcache takes as long as twenty hits. Changes go through
diskcache, which is loaded at the first one. diskcache can unpickle values (CVE-2025-69872) and open
or delete files that a row names. So nothing is read through it, and its ``Disk`` here accepts text
keys and byte values only.
"""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from gpubuild.cache.local.folder import DamagedIndexError, UnavailableIndexError
from gpubuild.cache.record import RecordError

DATABASE = "cache.db"
_BUSY_SECONDS = 5.0
_MODE_RAW = 1  # diskcache.core.MODE_RAW: the value is in the row
_MAX_VALUE_BYTES = 1 << 30  # above this diskcache would use a file beside the database
_ROW = "SELECT mode, filename, value FROM Cache WHERE key = ? AND raw = 1"
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Cache'"
# Errors of a damaged database (sqlite.org/rescode.html): ERROR (a missing table or column), CORRUPT,
# SCHEMA, MISMATCH, FORMAT, NOTADB.
_DAMAGE_CODES = frozenset({1, 11, 17, 20, 24, 26})


class Index:
    """The index in ``folder``, which exists; the database is created if it is missing.

    Methods raise ``DamagedIndexError`` and ``UnavailableIndexError``. Without ``writable`` the
    database is opened ``immutable``, without locks and write-ahead log, as a read-only medium
    requires. A record that another machine is writing may then be read in part: its checksum makes
    that a miss.
    """

    def __init__(self, folder: Path, *, writable: bool) -> None:
        self._folder = folder
        self._writer: Any = None  # diskcache.Cache, which has no types
        file = folder / DATABASE
        with _translated():
            if not writable:
                name = f"file:{urllib.parse.quote(os.fsencode(file.absolute()))}?mode=ro&immutable=1"
                self._reader = sqlite3.connect(name, uri=True, check_same_thread=False)
                self._reader.execute("SELECT 1 FROM Cache LIMIT 1").fetchall()
                return
            if os.path.expandvars(folder) != str(folder):  # diskcache would open another folder
                raise UnavailableIndexError("its path contains the name of an environment variable after a $")
            _probe(file)
            self._reader = sqlite3.connect(
                file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # A mapped file that is truncated ends the process with SIGBUS.
            self._reader.execute("PRAGMA mmap_size = 0").fetchall()
            if not self._reader.execute(_HAS_TABLE).fetchall():
                self._writer = _open_writer(folder)

    def read(self, key: str) -> bytes | None:
        """Return the value of ``key``. Raises ``RecordError`` for a row that is not one of ours."""
        with _translated():
            rows = self._reader.execute(_ROW, (key,)).fetchall()
        if not rows:
            return None
        mode, filename, value = rows[0]
        if mode != _MODE_RAW or filename is not None or type(value) is not bytes:
            raise RecordError("a value that is not bytes")
        return value

    def list_keys(self) -> list[str]:
        """Return all keys that are text."""
        with _translated():
            rows = self._reader.execute("SELECT key FROM Cache WHERE raw = 1").fetchall()
        return [key for (key,) in rows if isinstance(key, str)]

    def write(self, key: str, value: bytes) -> None:
        """Set the value of ``key``."""
        self._change(lambda cache: cache.set(key, value))

    def delete(self, key: str) -> None:
        """Remove ``key``."""
        self._change(lambda cache: cache.delete(key))

    def clear(self) -> None:
        """Remove all keys."""
        self._change(lambda cache: cache.clear())

    def close(self) -> None:
        """Close this thread's connections."""
        with suppress(Exception):
            self._reader.close()
        if self._writer is not None:
            with suppress(Exception):
                self._writer.close()

    def _change(self, change: Callable[[Any], object]) -> None:
        with _translated():
            if self._writer is None:
                self._writer = _open_writer(self._folder)
            change(self._writer)


def database_identity(folder: Path) -> tuple[int, int] | None:
    """Return which file the database in ``folder`` is; ``None`` when there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_writer(folder: Path) -> Any:  # noqa: ANN401 - diskcache has no types
    import diskcache

    class PlainDisk(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
        """Text keys, byte values in the row; deletes no file that a row names."""

        def put(self, key: object) -> tuple[str, bool]:
            if type(key) is not str:
                raise TypeError("a key that is not text")
            return key, True

        def store(self, value: object, read: object, key: object = None) -> tuple[int, int, None, bytes]:
            if type(value) is not bytes or read or len(value) > _MAX_VALUE_BYTES:
                raise TypeError("a value that is not bytes")
            return 0, _MODE_RAW, None, value

        def remove(self, file_path: object) -> None:
            pass

    return diskcache.Cache(
        str(folder),
        timeout=_BUSY_SECONDS,
        disk=PlainDisk,
        eviction_policy="none",
        size_limit=1 << 62,
        cull_limit=0,
        statistics=0,
        tag_index=0,
        disk_min_file_size=_MAX_VALUE_BYTES,
        sqlite_mmap_size=0,
    )


def _probe(path: Path) -> None:
    """Take and release the write lock: diskcache would wait 60 s for one held by a dead client."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


@contextmanager
def _translated() -> Iterator[None]:
    """Translate what SQLite and diskcache raise into the two exceptions of ``Index``."""
    try:
        yield
    except UnavailableIndexError:
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        foreign = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
        if (code is None and not foreign) or (code or 0) & 0xFF in _DAMAGE_CODES:
            raise DamagedIndexError(str(error)) from error
        raise UnavailableIndexError(str(error)) from error
    except OSError as error:
        raise UnavailableIndexError(error.strerror or str(error)) from error
    except (ImportError, MemoryError) as error:
        raise UnavailableIndexError(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        if type(error).__name__ == "Timeout":  # diskcache's, which is perhaps not loaded
            raise UnavailableIndexError("it is locked or cannot be written") from error
        # diskcache trusts its tables: unexpected values raise TypeError, KeyError and others.
        raise DamagedIndexError(f"{type(error).__name__}: {error}") from error
