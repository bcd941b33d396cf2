"""Files and folders: replaced as a whole, locked, deleted; and whether their disk has room.

Readers of a file that is replaced see the old content or the new, never a part of it. The blobs of the
cache have their own code: they are checked while they are written, made durable in groups, and each kind
of failure has its own meaning there.

Imports little: the null build, which has a few milliseconds, writes a file with this.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
PREFIX = ".gpubuild-"  # of temporary files; a killed process may leave one
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL: never through a link


class Replacement:
    """Context manager: a path to write a file to, which takes the place of ``path`` at the end.

    The file lies in ``folder``, by default beside ``path``. After an exception it is removed, since a
    part of it would fill a disk that is full already.
    """

    def __init__(self, path: str | os.PathLike[str], *, folder: str | os.PathLike[str] = "") -> None:
        self._path = os.fspath(path)
        folder = os.fspath(folder) or os.path.dirname(self._path)
        self._temporary = os.path.join(folder, f"{PREFIX}{os.urandom(8).hex()}.tmp")

    def __enter__(self) -> str:
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                os.replace(self._temporary, self._path)
                return
        except OSError:
            self._remove()
            raise
        self._remove()

    def _remove(self) -> None:
        try:  # noqa: SIM105 - contextlib takes its time to load
            os.unlink(self._temporary)
        except OSError:
            pass  # it was never made, or the first error says what is wrong


class UserFile(Replacement):
    """A replacement of a file that the user has named, as for a report.

    Pipes, devices, links, files of others and those in folders that cannot be written stay what they are:
    they are written in place.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._mode = 0
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            is_plain = True
        else:
            self._mode = stat.S_IMODE(found.st_mode)
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
            is_plain = is_plain and os.access(path, os.W_OK)
        if not is_plain or not os.access(os.path.dirname(self._path) or ".", os.W_OK | os.X_OK):
            self._temporary = self._path

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._temporary != self._path:
            if kind is None and self._mode:
                os.chmod(self._temporary, self._mode)
            super().__exit__(kind, *rest)


def write_atomically(
    path: str | os.PathLike[str],
    data: bytes | str,
    *,
    mode: int = 0o666,
    folder: str | os.PathLike[str] = "",
) -> None:
    """Replace the file ``path`` by one with ``data``, text as UTF-8. Raises ``OSError``.

    ``mode`` is subject to the umask; ``folder`` is where a temporary file lies meanwhile.
    """
    with Replacement(path, folder=folder) as temporary:
        handle = os.open(temporary, _CREATE, mode)
        with open(handle, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)


def why_full(folder: str | os.PathLike[str], size_bytes: int = 1 << 16) -> str:
    """Return the system's reason why there is no room for ``size_bytes`` in ``folder``.

    Programs and libraries that fail on a full disk often do not say so. Return an empty string if there is
    room, or if writing fails for another reason. A file is written and deleted: free blocks say nothing
    about quotas, file numbers and what is reserved for root.
    """
    path = os.path.join(folder, f"{PREFIX}{os.urandom(8).hex()}.tmp")
    try:
        with open(path, "xb") as stream:
            stream.write(bytes(size_bytes))
    except OSError as error:
        return (error.strerror or "") if error.errno in NO_ROOM else ""
    finally:
        delete_tree(path)
    return ""


def delete_tree(path: str | os.PathLike[str], older_than: float = float("inf")) -> int:
    """Delete ``path``, folders included, without following links. Return the bytes freed.

    What was modified after ``older_than`` (Unix time), is in use or cannot be deleted stays. ``shutil``
    loads bz2 and lzma, and takes twice the time.
    """
    freed = 0
    try:
        found = os.lstat(path)
        if found.st_mtime > older_than:
            return 0
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(path) as entries:
                freed += sum([delete_tree(entry.path, older_than) for entry in entries])
            os.rmdir(path)
        else:
            os.unlink(path)
            freed += found.st_size
    except OSError:
        pass
    return freed


def try_lock(handle: int) -> bool | None:
    """Try to take an exclusive lock: whether we have it; ``None`` where locks are not supported.

    The kernel releases locks when their owner dies. A caller must be right without them, too.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def is_file_of(handle: int, path: str | os.PathLike[str]) -> bool:
    """Return whether the open file is the one at ``path``: it may have been deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
