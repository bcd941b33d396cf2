"""Index of the local cache: key → record bytes, in one table of an SQLite database."""

from __future__ import annotations

import os
import sqlite3
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from gpubuild.cache.local.folder import DamagedIndexError, UnavailableIndexError
from gpubuild.cache.record import RecordError

DATABASE = "cache.db"
_BUSY_SECONDS = 5.0
_HAS_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'Record'"
_HAS_ANY = "SELECT 1 FROM sqlite_master"
_CREATE = "CREATE TABLE IF NOT EXISTS Record (key TEXT PRIMARY KEY, value BLOB NOT NULL)"
# Errors of a damaged database (sqlite.org/rescode.html): ERROR (a missing table or column), CORRUPT,
# SCHEMA, MISMATCH, FORMAT, NOTADB.
_DAMAGE_CODES = frozenset({1, 11, 17, 20, 24, 26})


class Index:
    """The index in ``folder``, which exists; the database is created if it is missing.

    Methods raise ``DamagedIndexError`` and ``UnavailableIndexError``. Without ``writable`` nothing is
    written: where no client has the database open it is read ``immutable``, without locks and
    write-ahead log, as a read-only medium requires. A record that another machine is writing may then
    be read in part: its checksum makes that a miss.
    """

    def __init__(self, folder: Path, *, writable: bool) -> None:
        file = folder / DATABASE
        with _translated():
            if not writable:
                self._database = _open_to_read(file)
                return
            _probe(file)
            self._database = sqlite3.connect(
                file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                _prepare(self._database)
            except BaseException:
                self._database.close()
                raise

    def read(self, key: str) -> bytes | None:
        """Return the value of ``key``. Raises ``RecordError`` for a row that is not one of ours."""
        with _translated():
            rows = self._database.execute("SELECT value FROM Record WHERE key = ?", (key,)).fetchall()
        if not rows:
            return None
        value = rows[0][0]
        if type(value) is not bytes:
            raise RecordError("a value that is not bytes")
        return value

    def list_keys(self) -> list[str]:
        """Return all keys that are text."""
        with _translated():
            rows = self._database.execute("SELECT key FROM Record").fetchall()
        return [key for (key,) in rows if isinstance(key, str)]

    def write(self, key: str, value: bytes) -> None:
        """Set the value of ``key``."""
        self._change("INSERT OR REPLACE INTO Record (key, value) VALUES (?, ?)", key, value)

    def delete(self, key: str) -> None:
        """Remove ``key``."""
        self._change("DELETE FROM Record WHERE key = ?", key)

    def clear(self) -> None:
        """Remove all keys."""
        self._change("DELETE FROM Record")

    def close(self) -> None:
        """Close the database."""
        with suppress(Exception):
            self._database.close()

    def _change(self, statement: str, *values: str | bytes) -> None:
        with _translated():
            self._database.execute(statement, values)


def database_identity(folder: Path) -> tuple[int, int] | None:
    """Return which file the database in ``folder`` is; ``None`` when there is none."""
    try:
        found = (folder / DATABASE).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open_to_read(file: Path) -> sqlite3.Connection:
    # Clients that write share an index of the write-ahead log in this file. Records may be in the log alone.
    if file.with_name(f"{file.name}-shm").exists():
        with suppress(sqlite3.Error):
            return _connect(file, "mode=ro")
    return _connect(file, "mode=ro&immutable=1")


def _connect(file: Path, options: str) -> sqlite3.Connection:
    name = f"file:{urllib.parse.quote(os.fsencode(file.absolute()))}?{options}"
    database = sqlite3.connect(name, uri=True, check_same_thread=False)
    try:
        if not database.execute(_HAS_ANY).fetchall():  # another process makes it, or the disk was full
            database.close()
            database = sqlite3.connect(":memory:", check_same_thread=False)
            database.execute(_CREATE)
        database.execute("SELECT 1 FROM Record LIMIT 1").fetchall()
    except sqlite3.Error:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    # A mapped file that is truncated ends the process with SIGBUS.
    database.execute("PRAGMA mmap_size = 0").fetchall()
    database.execute("PRAGMA synchronous = NORMAL")
    if not database.execute(_HAS_TABLE).fetchall():
        database.execute("PRAGMA journal_mode = WAL").fetchall()
        database.execute(_CREATE)


def _probe(path: Path) -> None:
    """Take and release the write lock."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


@contextmanager
def _translated() -> Iterator[None]:
    """Translate what SQLite raises into the two exceptions of ``Index``."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        foreign = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
        if (code is None and not foreign) or (code or 0) & 0xFF in _DAMAGE_CODES:
            raise DamagedIndexError(str(error)) from error
        raise UnavailableIndexError(str(error)) from error
    except OSError as error:
        raise UnavailableIndexError(error.strerror or str(error)) from error
    except MemoryError as error:
        raise UnavailableIndexError("MemoryError") from error
    except (UnicodeError, OverflowError) as error:  # values of a damaged row
        raise DamagedIndexError(f"{type(error).__name__}: {error}") from error
