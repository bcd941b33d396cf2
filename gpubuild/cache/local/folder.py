"""The folder of the local cache: ownership, the tag file, its size, locks, removal, index errors.

``CACHEDIR.TAG`` marks the folder for backup programs and identifies this cache: it is replaced when
the cache is cleared, so a build folder knows whether what it stored can still be there.

The stored size is an estimate, so that a build need not count thousands of files. Builds that end
at the same time may lose each other's additions; a lost file costs one count.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from gpubuild.model.digest import digest_bytes
from gpubuild.support.files import try_lock, write_atomically


class DamagedIndexError(Exception):
    """The database of the index is corrupt and must be set aside."""


class UnavailableIndexError(Exception):
    """The database is locked, unwritable, full or on a file system without locks."""


@contextmanager
def locked(path: Path, *, wait_seconds: float) -> Iterator[bool]:
    """Hold the lock file ``path``. Yield False if another process holds it after ``wait_seconds``.

    Yield True where locks are not supported: the caller must be correct without them.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield True
        return
    try:
        yield _take(handle, time.monotonic() + wait_seconds)
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a process forked meanwhile has the handle, too
        os.close(handle)


def _take(handle: int, deadline: float) -> bool:
    while try_lock(handle) is False:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


_IF_SHARED = "; set GPUBUILD_CACHE_SHARED=1 if it is meant to be shared"


def trust_everyone(cache: Path) -> str:
    """Accept every cache: for one that is meant to be shared, or that nothing is read from."""
    return ""


def why_untrusted(cache: Path, project: Path | None = None) -> str:
    """Return why ``cache`` must not be used: its writers decide what programs contain.

    Trusted are this user, root, the owner of the folder ``project``, who decides what is built, and a
    group with write permission, which was granted on purpose.
    """
    trusted = {os.geteuid(), 0}
    if project is not None:
        with suppress(OSError):
            trusted.add(project.stat().st_uid)
    for folder in (cache, cache / "index", cache / "cas"):
        try:
            found = folder.stat()
        except OSError:  # missing, or unreadable, which is reported when it is read
            continue
        if found.st_uid not in trusted:
            return f"{folder} belongs to another user, {_user_name(found.st_uid)}{_IF_SHARED}"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"every user can write to {folder} (chmod o-w changes that){_IF_SHARED}"
    return ""


def why_not_personal(folder: Path) -> str:
    """Return why this user should not keep files in ``folder``, which need not exist.

    What root, with the home folder of another user, would write there is useless to that user.
    """
    for path in (folder, folder.parent):
        try:
            found = path.stat()
        except OSError:
            continue
        if not stat.S_ISDIR(found.st_mode):
            return f"{path} is not a folder"
        if found.st_uid != os.geteuid():
            return f"{path} belongs to another user, {_user_name(found.st_uid)}"
    return "" if _may_write(folder) else f"{folder} cannot be written"


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of ``folder``; none when it cannot be read."""
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return


TAG_NAME = "CACHEDIR.TAG"
_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a gpubuild cache. It may be deleted at any time; see https://bford.info/cachedir/
"""
_NEW = "new"  # no tag yet, and one can be written


def write_tag(directory: Path) -> None:
    """Give the cache ``directory`` a new tag. Raises ``OSError``."""
    write_atomically(directory / TAG_NAME, _TEXT, folder=directory / "tmp")


def read_identity(directory: Path) -> str:
    """Return the identity of the cache in ``directory``; empty when it cannot be written."""
    # Called for every hit: no Path objects, and one digest.
    try:
        tag = os.stat(f"{directory}/{TAG_NAME}")  # noqa: PTH116
    except OSError:
        return _NEW if _may_write(directory) else ""
    writable = os.access(directory, os.W_OK | os.X_OK)
    return _name(str(directory), tag.st_ino, tag.st_mtime_ns) if writable else ""


@lru_cache(maxsize=8)
def _name(directory: str, inode: int, mtime_ns: int) -> str:
    return digest_bytes(os.fsencode(f"{directory} {inode} {mtime_ns}"))[:16]


def _may_write(folder: Path) -> bool:
    """Whether permissions and mounts allow to write to ``folder``, or to create it."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


_NAME = "size"
_MAX_TEXT = 20


def read_note(directory: Path) -> int | None:
    """Return the noted size of the blobs of the cache ``directory`` in bytes, ``None`` without a note."""
    try:
        text = (directory / _NAME).read_bytes()
    except OSError:
        return None
    digits, end = text[:-1], text[-1:]  # without its newline a number may have lost digits
    return int(digits) if end == b"\n" and len(digits) <= _MAX_TEXT and digits.isdigit() else None


def write_note(directory: Path, size_bytes: int) -> None:
    """Replace the note; ignore errors."""
    with suppress(OSError):
        write_atomically(directory / _NAME, f"{max(0, size_bytes)}\n", folder=directory / "tmp")
