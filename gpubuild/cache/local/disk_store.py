"""DiskStore: the local cache, one folder with an index and content-addressed files.

    CACHEDIR.TAG  lock  index/cache.db  cas/ab/<sha256>  tmp/  quarantine/  size

No fault of the cache stops a build: look-ups miss, results are not stored, each cause is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpubuild.cache.local.blobs import BlobFolder, DamagedBlobError, DestinationError, SourceError
from gpubuild.cache.local.folder import (
    TAG_NAME,
    DamagedIndexError,
    UnavailableIndexError,
    locked,
    read_identity,
    read_note,
    why_untrusted,
    write_note,
    write_tag,
)
from gpubuild.cache.record import RecordError, decode_record, encode_record
from gpubuild.cache.store import Store
from gpubuild.cache.warnings import Warnings
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.file_stamp import exists
from gpubuild.support.files import why_full
from gpubuild.support.frozen import frozen

if TYPE_CHECKING:
    from gpubuild.cache.local.index import Index

T = TypeVar("T")
_LOCK_SECONDS = 15.0
_ROOM_BYTES = 1 << 20  # a change of the index needs: SQLite writes files beside it
_LOW_WATER = 0.9  # of the limit is left after a collection, so that not every build needs one


@frozen
class StoreStats:
    """Sizes of a store. ``reclaimable_bytes`` are blobs no record names."""

    directory: str
    records: int
    blobs: int
    size_bytes: int
    reclaimable_bytes: int
    quarantined: int


class DiskStore(Store):
    """A ``Store`` in ``directory``, shared safely by any number of processes.

    When a store that published something is closed and the cache is larger than ``max_size_bytes``
    (0: no limit), ``on_full`` is called with the folder and the size to collect down to. With
    ``write_only`` nothing is found. ``read_only`` forbids writing, as does a folder that cannot be
    written. Nothing is created or opened before the first request, or if ``audit`` returns an objection.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_size_bytes: int = 0,
        read_only: bool = False,
        write_only: bool = False,
        audit: Callable[[Path], str] = why_untrusted,
        on_full: Callable[[Path, int], None] | None = None,
    ) -> None:
        self._directory = directory.absolute()
        self._max_size_bytes = max_size_bytes
        self._on_full = on_full
        self._writable = not read_only
        self._readable = not write_only
        self._audit = audit
        self._blobs = BlobFolder(self._directory)
        self._index: Index | None = None
        self._identity: tuple[int, int] | None = None  # the database file that was opened
        self._opened = False
        self._resets_left = 2
        self._published_bytes = 0
        self._refused: set[Digest] = set()  # blobs found bad that could not be moved away
        self._warnings = Warnings()
        self.warn_once = self._warnings.add
        self.unusable = ""  # why nothing is read or written any more

    @property
    def warnings(self) -> tuple[str, ...]:
        """See ``Store``."""
        return self._warnings.messages()

    def lookup(self, key: Digest) -> ActionResult | None:
        """See ``Store``. A record with an absent or wrongly sized blob is a miss."""
        result = self._read_record(key) if self._readable else None
        if result is None:
            return None
        try:
            complete = all(self._blobs.has(b) and b.digest not in self._refused for b in result.blobs)
        except OSError as error:
            self.warn_once("read", f"cannot read the cache {self._directory}: {_reason(error)}")
            return None
        return result if complete else None

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """See ``Store``."""
        try:
            self._blobs.copy_out(blob, destination)
        except FileNotFoundError:
            return False  # evicted since the look-up
        except DamagedBlobError as error:
            self._refused.add(blob.digest)
            self.warn_once("damaged blob", f"the cache is damaged: {error}; it was set aside")
            return False
        except DestinationError as error:
            self.warn_once("destination", str(error))
            raise
        except (OSError, ValueError) as error:
            self.warn_once("read", f"cannot read the cache {self._directory}: {_reason(error)}")
            return False
        return True

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """See ``Store``. The files are hashed again; one that does not match stores nothing."""
        if not is_digest(key) or self._ready() is None or not self._writable:
            return False
        try:
            record = encode_record(key, result)
            added = self._blobs.add({blob: files[blob.name] for blob in result.blobs})
        except (SourceError, RecordError) as error:
            self.warn_once("source", f"a result was not cached: {error}")
            return False
        except OSError as error:
            self.note_write_error(error)
            return False
        self._refused.difference_update(blob.digest for blob in result.blobs)
        return self._write_record(key, record, added)

    @property
    def identity(self) -> str:
        """See ``Store``. Clearing the cache replaces the tag, and so this."""
        return read_identity(self._directory) if self._writable else ""

    def discard(self, key: Digest) -> None:
        """See ``Store``."""
        if self._ready() is not None and self._writable:
            self._change(lambda index: index.delete(key))

    # --- for upkeep, remote caches and archives ---

    def stats(self) -> StoreStats:
        """Return counts and sizes."""
        named = self.records()
        wanted = {blob.digest for result in named.values() for blob in result.blobs}
        blobs = list(self._blobs.scan())
        return StoreStats(
            directory=str(self._directory),
            records=len(named),
            blobs=len(blobs),
            size_bytes=sum(blob.size_bytes for blob in blobs),
            reclaimable_bytes=sum(blob.size_bytes for blob in blobs if blob.digest not in wanted),
            quarantined=self._blobs.quarantined(),
        )

    def clear(self) -> int:
        """Delete everything; return the bytes freed. Only files of ours go; a build under way sees misses."""
        made = self.make_room()
        if self._ready() is None or not self._writable or not self._change(lambda index: index.clear()):
            return made
        freed = made + sum(self._blobs.delete(blob) for blob in list(self._blobs.scan()))
        self.note_size(0)
        self._renew_tag()
        return freed + self._blobs.sweep(older_than_seconds=0.0, quarantine=True)

    def make_room(self) -> int:
        """Delete what was used longest ago until a full disk has room to change the index; return the bytes.

        The records that name it are misses, which the next collection deletes.
        """
        freed = 0
        if not self._audit(self._directory):
            for blob in sorted(self._blobs.scan(), key=lambda blob: blob.used_seconds):
                if not why_full(self._directory, _ROOM_BYTES):
                    break
                freed += self._blobs.delete(blob)
        return freed

    @property
    def directory(self) -> Path:
        """The cache's folder, absolute."""
        return self._directory

    @property
    def blobs(self) -> BlobFolder:
        """The blobs of the cache."""
        return self._blobs

    @property
    def writable(self) -> bool:
        """Whether results can be stored; opens the cache."""
        return self._ready() is not None and self._writable

    def note_write_error(self, error: Exception) -> None:
        """Warn, once, that something cannot be stored. Thread-safe."""
        self.warn_once("write", f"cannot write to the cache {self._directory}: {_reason(error)}")

    def has(self, blob: Blob) -> bool:
        """Whether ``blob`` is there; its content is not read. Thread-safe."""
        try:
            return self._blobs.has(blob) and blob.digest not in self._refused
        except OSError:
            return False

    def receive(self, blob: Blob, chunks: Iterable[bytes]) -> None:
        """Store ``blob`` of another cache, for :meth:`adopt`. Thread-safe once :attr:`writable`.

        Raises ``DamagedBlobError`` for other bytes than its own, ``OSError`` for a failing disk.
        """
        self._blobs.add_chunks(blob, chunks)
        self._refused.discard(blob.digest)

    def adopt(self, key: Digest, result: ActionResult) -> bool:
        """Store a result of another cache whose blobs were received."""
        if not is_digest(key) or not self.writable:
            return False
        try:
            record = encode_record(key, result)
            self._blobs.sync([blob.digest for blob in result.blobs])
        except (RecordError, OSError) as error:
            self.note_write_error(error)
            return False
        return self._write_record(key, record, result.blobs)

    def _write_record(self, key: Digest, record: bytes, added: Iterable[Blob]) -> bool:
        if not self._change(lambda index: index.write(key, record)):
            return False
        self._published_bytes += sum(blob.size_bytes for blob in added)
        return True

    def records(self) -> dict[Digest, ActionResult]:
        """Return all good records. Bad ones are set aside."""
        keys = [
            Digest(key) for key in self._ask(lambda index: index.list_keys(), list[str]()) if is_digest(key)
        ]
        return {key: result for key in keys if (result := self._read_record(key)) is not None}

    def close(self) -> None:
        """See ``Store``. Closing twice is harmless."""
        if self._published_bytes and self._writable:
            self._check_size()
        self._published_bytes = 0
        if self._index is not None:
            self._index.close()
        self._index, self._opened = None, False

    def note_size(self, size_bytes: int) -> None:
        """Write down the counted size of the cache."""
        write_note(self._directory, size_bytes)
        self._published_bytes = 0

    def _check_size(self) -> None:
        """Start garbage collection in another process when the cache is over its limit."""
        known = read_note(self._directory)
        if known is None:
            known = sum(blob.size_bytes for blob in self._blobs.scan())
        else:
            known += self._published_bytes
        write_note(self._directory, known)
        if 0 < self._max_size_bytes < known and self._on_full is not None:
            self._on_full(self._directory, int(self._max_size_bytes * _LOW_WATER))

    # --- records ---

    def _read_record(self, key: Digest) -> ActionResult | None:
        if not is_digest(key):
            return None
        data: bytes | None = b""
        try:
            data = self._ask(lambda index: index.read(key), None)
            return None if data is None else decode_record(key, data)
        except RecordError as error:
            self.warn_once("record", f"the cache is damaged: the record of {key} is malformed: {error}")
            if self._writable:
                with suppress(OSError):
                    self._blobs.set_aside_bytes(f"record-{key}", data or b"")
                self._change(lambda index: index.delete(key))
        return None

    def _ask(self, ask: Callable[[Index], T], nothing: T) -> T:
        """Return what ``ask`` reads from the index; ``nothing`` if it cannot be read."""
        index = self._ready()
        if index is None:
            return nothing
        try:
            return ask(index)
        except DamagedIndexError as error:
            self._reset(str(error))
        except UnavailableIndexError as error:
            self._give_up(f"cannot read its index: {error}")
        return nothing

    def _change(self, change: Callable[[Index], None]) -> bool:
        """Apply ``change`` to the index, a second time if the index had to be recreated."""
        for _attempt in range(2):
            index = self._ready()
            if index is None or not self._writable:
                return False
            try:
                change(index)
            except DamagedIndexError as error:
                self._reset(str(error))
            except UnavailableIndexError as error:
                # Reading may still work; another attempt would cost every step the time-out.
                self._writable = False
                self.warn_once(
                    "write", f"cannot write to the cache {self._directory}: {error}{self._remedy()}"
                )
                return False
            else:
                return True
        return False

    # --- opening ---

    def _ready(self) -> Index | None:
        """Return the index, opened on first use; ``None`` when there is none."""
        if not self._opened:
            self._opened = True
            self._open()
        return self._index

    def _open(self) -> None:
        if reason := self._audit(self._directory):
            self._writable = False
            self._give_up(reason)
            return
        if self._writable:
            try:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self._directory / "index").mkdir(mode=0o700, exist_ok=True)
                self._blobs.prepare()
                if not (self._directory / TAG_NAME).exists():
                    write_tag(self._directory)
            except OSError as error:
                self._writable = False
                self.note_write_error(error)
        self._open_index()

    def _open_index(self) -> None:
        from gpubuild.cache.local.index import DATABASE, Index, database_identity  # loads sqlite3

        folder = self._directory / "index"
        try:
            if self._writable:
                # SQLite opens journals by name, so no process may create or move the database meanwhile:
                # the journal of a new database would be applied to the old one, and deleted.
                with locked(self._directory / "lock", wait_seconds=_LOCK_SECONDS):
                    if not exists(folder / DATABASE):
                        self._renew_tag()
                    try:
                        self._index = Index(folder, writable=True)
                    finally:
                        self._identity = database_identity(folder)
            elif exists(folder / DATABASE):
                self._index = Index(folder, writable=False)
        except DamagedIndexError as error:
            self._reset(str(error))
        except UnavailableIndexError as error:
            if self._writable:
                self._writable = False
                self.warn_once("write", f"cannot use the cache {self._directory}: {error}{self._remedy()}")
                self._open_index()
            else:
                self._give_up(f"cannot open its index: {error}")
        except OSError as error:  # no permission, a name that is too long
            self._give_up(f"cannot open its index: {error.strerror}")

    def _reset(self, reason: str) -> None:
        """Set a corrupt index aside and start an empty one; the blobs stay."""
        from gpubuild.cache.local.index import database_identity

        if self._index is not None:
            self._index.close()
            self._index = None
        message = f"the cache {self._directory} is damaged: its index cannot be read ({reason})"
        if not self._writable or self._resets_left == 0:
            self._give_up(f"its index is damaged: {reason}")
            return
        self._resets_left -= 1
        try:
            with locked(self._directory / "lock", wait_seconds=_LOCK_SECONDS):
                # Another process may have replaced it since we opened it.
                if database_identity(self._directory / "index") == self._identity:
                    path = self._blobs.set_aside_folder(self._directory / "index")
                    message += f"; it was set aside as {path}; a new one was started"
                (self._directory / "index").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._give_up(f"its index is damaged and cannot be set aside: {error.strerror}")
            return
        self.warn_once("index", message)
        self._open_index()

    def _remedy(self) -> str:
        """Return what to do when SQLite cannot write: its error may be just "disk I/O error"."""
        if full := why_full(self._directory, _ROOM_BYTES):
            return f" ({full}); free some space there"
        return "; if it is on a network file system, choose a local folder with --cache-dir"

    def _renew_tag(self) -> None:
        with suppress(OSError):  # then up-to-date results are not stored again
            write_tag(self._directory)

    def _give_up(self, reason: str) -> None:
        self.unusable = reason
        self.warn_once("index", f"the cache {self._directory} is not used: {reason}")
        if self._index is not None:
            self._index.close()
        self._index, self._opened = None, True


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
