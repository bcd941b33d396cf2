"""Blobs: files named by the SHA-256 of their content.

A name appears only by the rename of a complete, synced file, and every read checks the content, so
a torn write, a flipped bit or an edited file is never served.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gpubuild.cache.local.folder import entries
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.step import Blob
from gpubuild.support.files import PREFIX, delete_tree
from gpubuild.support.frozen import frozen

_CHUNK_BYTES = 1 << 20
_MOST_OPEN = 64  # files that are written before the first of them is synced
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
# Non-blocking: a FIFO instead of a blob must not stop a build.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class DamagedBlobError(Exception):
    """The content of a stored blob does not match its name. It was set aside if possible."""


class DestinationError(Exception):
    """The file to copy a blob to cannot be written: the build folder's fault, not the cache's."""


class SourceError(Exception):
    """A file to be stored is unreadable or does not have the expected digest."""


@frozen
class StoredBlob:
    """One file of the store. ``used_seconds`` is when it was last read or written (Unix time)."""

    digest: Digest
    path: Path
    size_bytes: int
    used_seconds: float


class BlobFolder:
    """The folders ``cas``, ``tmp`` and ``quarantine`` of a cache directory.

    Methods raise ``OSError`` when the store itself fails.
    """

    def __init__(self, directory: Path) -> None:
        self._cas = directory / "cas"
        self._tmp = directory / "tmp"
        self._quarantine = directory / "quarantine"
        self._prefix = f"{self._cas}{os.sep}"
        self._durable: set[str] = set()  # folders whose names in `cas` were synced

    def prepare(self) -> None:
        """Create the folders, and test that files can be created in them."""
        for folder in (self._cas, self._tmp, self._quarantine):
            folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(probe := self._temporary(), _CREATE, 0o600))
        os.unlink(probe)

    def path(self, digest: Digest) -> Path:
        """Return the path of a blob. Raises ``ValueError`` for what is not a digest."""
        return Path(self._name(digest))

    def _name(self, digest: Digest) -> str:
        # Plain text: Path objects would take as long as reading.
        if not is_digest(digest):
            raise ValueError(f"not a digest: {digest!r}")
        return f"{self._prefix}{digest[:2]}{os.sep}{digest}"

    def has(self, blob: Blob) -> bool:
        """Whether a file of the right name and size exists; its content is not read."""
        try:
            found = os.lstat(self._name(blob.digest))
        except FileNotFoundError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size == blob.size_bytes

    def copy_out(self, blob: Blob, destination: Path) -> None:
        """Replace ``destination`` by a verified copy, mode 0644 or 0755 whatever the umask.

        A copy, never a link: the user may edit build outputs. Raises ``FileNotFoundError`` for
        an absent blob, ``DamagedBlobError`` after setting a bad one aside, ``DestinationError``.
        """
        name = self._name(blob.digest)
        try:
            source = os.open(name, _READ)
        except OSError as error:
            path = Path(name)
            if path.is_symlink():
                self._set_aside(path, path.lstat())
                raise DamagedBlobError(f"{path} is a link") from error
            raise
        try:
            found = os.fstat(source)
            if not stat.S_ISREG(found.st_mode) or found.st_size != blob.size_bytes:
                self._set_aside(Path(name), found)
                raise DamagedBlobError(f"{name} is not a file of {blob.size_bytes} bytes")

            def fill(target: int) -> None:
                if _copy(source, target, destination) != blob.digest:
                    self._set_aside(Path(name), found)
                    raise DamagedBlobError(f"the content of {name} does not match its name")

            _replace(blob, destination, fill)
        finally:
            os.close(source)

    def add(self, files: Mapping[Blob, Path]) -> list[Blob]:
        """Store files as durable blobs. Return the new ones.

        Many are written before the first is synced: else each would wait for the disk by itself.
        Raises ``SourceError`` when a file's bytes are not those of its blob; then none is stored.
        """
        staged: dict[Digest, tuple[str, Blob]] = {}  # the names of copies
        unsynced: list[int] = []  # their descriptors
        try:
            for blob, file in files.items():
                self._stage(blob, file, staged, unsynced)
                if len(unsynced) == _MOST_OPEN:
                    _sync_and_close(unsynced)
            _sync_and_close(unsynced)
            for digest, (temporary, _) in staged.items():
                self._rename(temporary, digest)
        except BaseException:
            for handle in unsynced:
                os.close(handle)
            for temporary, _ in staged.values():
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            raise
        self.sync(list(staged))
        return [blob for _, blob in staged.values()]

    def _stage(
        self, blob: Blob, file: Path, staged: dict[Digest, tuple[str, Blob]], unsynced: list[int]
    ) -> None:
        """Add a copy of ``file`` to ``staged`` and ``unsynced``, unless ``blob`` exists."""
        try:
            source = os.open(file, _READ)
        except OSError as error:
            raise SourceError(f"cannot read {file}: {error.strerror}") from error
        try:
            if blob.digest in staged or self.has(blob):
                _expect(_copy(source, None), blob, file)
                with contextlib.suppress(OSError):
                    os.utime(self._name(blob.digest))  # for the order of eviction
                return
            temporary = self._temporary()
            target = os.open(temporary, _CREATE, 0o600)
            staged[blob.digest] = temporary, blob
            unsynced.append(target)
            _expect(_copy(source, target), blob, file)
            os.fchmod(target, 0o444)
            with contextlib.suppress(OSError):  # begins to write without waiting
                os.posix_fadvise(target, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(source)

    def add_chunks(self, blob: Blob, chunks: Iterable[bytes]) -> None:
        """Store the bytes that another cache sends for ``blob``. Durable only after :meth:`sync`.

        Thread-safe. Writes no more than the blob's size. Raises ``DamagedBlobError`` for wrong bytes,
        and passes on exceptions of ``chunks``.
        """
        with self._new_file() as (temporary, target):
            _receive(blob, chunks, target, None)
            os.fchmod(target, 0o444)
            os.fsync(target)
            self._rename(temporary, blob.digest)

    def sync(self, digests: list[Digest]) -> None:
        """Make the names of newly added blobs durable."""
        names = {digest[:2] for digest in digests}
        for name in names:
            _sync_folder(f"{self._prefix}{name}")
        # Another process may have created a folder that is new to this one, and not synced it yet.
        if not names <= self._durable:
            _sync_folder(self._prefix)
            self._durable |= names

    def set_aside_bytes(self, name: str, data: bytes) -> None:
        """Keep ``data`` in quarantine for inspection."""
        handle = os.open(self._quarantine / f"{name}-{time.time_ns()}", _CREATE, 0o600)
        with _closing(handle):
            os.write(handle, data)

    def set_aside_folder(self, folder: Path) -> Path:
        """Move ``folder`` into quarantine and return its new path."""
        path = self._quarantine / f"{folder.name}-{time.time_ns()}"
        folder.rename(path)
        return path

    def scan(self) -> Iterator[StoredBlob]:
        """Yield all blobs, in no order; skip files that are not ours."""
        for folder in entries(self._cas):
            if len(folder.name) != 2 or not folder.is_dir(follow_symlinks=False):
                continue
            for entry in entries(Path(folder.path)):
                if not is_digest(entry.name) or not entry.name.startswith(folder.name):
                    continue
                with contextlib.suppress(OSError):  # deleted meanwhile
                    found = entry.stat(follow_symlinks=False)
                    yield StoredBlob(
                        digest=Digest(entry.name),
                        path=Path(entry.path),
                        size_bytes=found.st_size,
                        # The kernel maintains atime, at worst a day old.
                        used_seconds=max(found.st_atime, found.st_mtime),
                    )

    def quarantined(self) -> int:
        """Return the number of entries in quarantine."""
        return sum(1 for _ in entries(self._quarantine))

    def rehash(self, blob: StoredBlob) -> bool:
        """Whether a blob's content matches its name; if not, set it aside. Thread-safe.

        Raises ``OSError`` when it cannot be read; its content is then unknown.
        """
        try:
            source = os.open(blob.path, _READ)
        except FileNotFoundError:
            return True  # evicted meanwhile
        with _closing(source):
            found = os.fstat(source)
            if stat.S_ISREG(found.st_mode) and _copy(source, None) == blob.digest:
                return True
            self._set_aside(blob.path, found)
            return False

    def delete(self, blob: StoredBlob) -> int:
        """Delete a blob. Return the bytes freed, 0 if it is gone or cannot be deleted.

        A blob used since it was scanned is kept: a build may be about to name it.
        """
        try:
            found = blob.path.lstat()
            if max(found.st_atime, found.st_mtime) > blob.used_seconds:
                return 0
            blob.path.unlink()
        except OSError:
            return 0
        return blob.size_bytes

    def sweep(self, *, older_than_seconds: float, quarantine: bool = False) -> int:
        """Delete leftovers of killed processes in ``tmp`` (and the quarantine). Return the bytes freed."""
        freed = 0
        limit = time.time() - older_than_seconds
        for folder in (self._tmp, self._quarantine) if quarantine else (self._tmp,):
            for entry in entries(folder):
                freed += delete_tree(entry.path, limit)
        return freed

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[str, int]]:
        """Yield a new file for a blob; delete it after an exception."""
        temporary = self._temporary()
        target = os.open(temporary, _CREATE, 0o600)
        try:
            with _closing(target):
                yield temporary, target
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _rename(self, temporary: str, digest: Digest) -> None:
        name = self._name(digest)
        try:
            os.replace(temporary, name)
        except FileNotFoundError:
            Path(name).parent.mkdir(mode=0o700, exist_ok=True)
            self._durable.discard(digest[:2])  # a folder that was synced may have been deleted since
            os.replace(temporary, name)

    def _temporary(self) -> str:
        return f"{self._tmp}{os.sep}{os.getpid()}-{os.urandom(8).hex()}"

    def _set_aside(self, path: Path, found: os.stat_result) -> None:
        """Quarantine ``path`` unless another process has replaced it by now."""
        with contextlib.suppress(OSError):
            now = path.lstat()
            if (now.st_ino, now.st_dev) == (found.st_ino, found.st_dev):
                path.rename(self._quarantine / f"{path.name}-{time.time_ns()}")


def write_chunks(blob: Blob, chunks: Iterable[bytes], destination: Path) -> None:
    """Replace ``destination`` by the bytes that another cache sends for ``blob``.

    Raises ``DamagedBlobError``, ``DestinationError``, and exceptions of ``chunks``.
    """
    _replace(blob, destination, lambda target: _receive(blob, chunks, target, destination))


def _replace(blob: Blob, destination: Path, fill: Callable[[int], None]) -> None:
    """Replace ``destination`` by a file that ``fill`` writes, with the mode of a build output."""
    folder, _ = os.path.split(destination)
    temporary = os.path.join(folder, f"{PREFIX}{os.urandom(8).hex()}.tmp")
    try:
        with _writing(destination):
            try:
                target = os.open(temporary, _CREATE, 0o600)
            except FileNotFoundError:
                destination.parent.mkdir(parents=True, exist_ok=True)
                target = os.open(temporary, _CREATE, 0o600)
        with _closing(target):
            fill(target)
            with _writing(destination):
                os.fchmod(target, 0o755 if blob.executable else 0o644)
        with _writing(destination):
            os.replace(temporary, destination)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def verified(blob: Blob, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield ``chunks``, no more than the size of ``blob``, and the last one only if all are its bytes.

    Raises ``DamagedBlobError`` if they are not, before a receiver has a whole file.
    """
    digest, size_bytes, held = hashlib.sha256(), 0, b""
    for chunk in chunks:
        size_bytes += len(chunk)
        if size_bytes > blob.size_bytes:
            break
        if held:
            yield held
        digest.update(chunk)
        held = chunk
    if size_bytes != blob.size_bytes or digest.hexdigest() != blob.digest:
        raise DamagedBlobError(f"the bytes of {blob.digest} have another digest")
    if held:
        yield held


def read_verified(blob: Blob, file: Path) -> Iterator[bytes]:
    """Yield the bytes of ``file`` as :func:`verified` does. Raises ``OSError``, too."""
    with file.open("rb") as stream:
        yield from verified(blob, iter(lambda: stream.read(_CHUNK_BYTES), b""))


def _receive(blob: Blob, chunks: Iterable[bytes], target: int, destination: Path | None) -> None:
    for chunk in verified(blob, chunks):
        _write_all(target, chunk, destination)


def _write_all(target: int, data: bytes, destination: Path | None) -> None:
    rest = memoryview(data)
    with _writing(destination):
        while rest:
            rest = rest[os.write(target, rest) :]


@contextlib.contextmanager
def _writing(destination: Path | None) -> Iterator[None]:
    """Turn an ``OSError`` into one of ``destination``, if one is named; else it is the store's."""
    try:
        yield
    except OSError as error:
        if destination is None:
            raise
        raise DestinationError(f"cannot write {destination}: {error.strerror}") from error


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(handle)


def _sync_and_close(handles: list[int]) -> None:
    for handle in handles:
        os.fsync(handle)
    while handles:
        os.close(handles.pop())


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with _closing(handle):
        os.fsync(handle)


def _copy(source: int, target: int | None, destination: Path | None = None) -> Digest:
    """Hash ``source`` to its end, writing the same bytes to ``target``."""
    digest = hashlib.sha256()
    # Most files are small: a buffer of a whole chunk, and a second read to see the end, would take longer
    # than the rest. The digest decides about bytes that are appended meanwhile.
    left = os.fstat(source).st_size
    while chunk := os.read(source, min(left + 1, _CHUNK_BYTES) if left >= 0 else _CHUNK_BYTES):
        digest.update(chunk)
        if target is not None:
            _write_all(target, chunk, destination)
        left -= len(chunk)
        if left == 0:
            break
    return Digest(digest.hexdigest())


def _expect(digest: Digest, blob: Blob, file: Path) -> None:
    if digest != blob.digest:
        raise SourceError(f"{file} changed before it was stored")
