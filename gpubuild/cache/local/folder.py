"""Folders of a cache: whose they are, what lies in them, and how to be rid of it.

Tag: the file CACHEDIR.TAG, which tells back-up programs, and us, which cache a folder is.

It is replaced whenever the cache begins anew, so that a build folder knows whether what it has
stored is still there to be expected.

Size note: about how large a cache is, so that a build need not count thousands of files.

An estimate: builds that end at once may lose each other's additions, and what eviction or another
program removes is seen only when somebody counts. Losing the file costs one count.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from gpubuild.model.digest import digest_bytes

_IF_SHARED = "; set GPUBUILD_CACHE_SHARED=1 if it is meant to be shared"


def trust_anybody(cache: Path) -> str:
    """For a cache that is meant to be shared, and for what takes nothing from it; see `why_untrusted`."""
    return ""


def why_untrusted(cache: Path, project: Path | None = None) -> str:
    """Why ``cache`` must not be used: others decide what is in it, and so what programs contain.

    Trusted are this user, root, and the owner of the folder ``project``, who decides anyway what is
    built; and a group that may write, which is a grant on purpose.
    """
    trusted = {os.geteuid(), 0}
    if project is not None:
        with suppress(OSError):
            trusted.add(project.stat().st_uid)
    for folder in (cache, cache / "index", cache / "cas"):
        try:
            found = folder.stat()
        except OSError:  # not there yet; what cannot be read is reported by whoever reads it
            continue
        if found.st_uid not in trusted:
            return f"{folder} belongs to another user, {_user_name(found.st_uid)}{_IF_SHARED}"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"every user can write to {folder} (chmod o-w changes that){_IF_SHARED}"
    return ""


def _user_name(number: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """What is in ``folder``; nothing when it cannot be read."""
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return


def delete_tree(path: Path, older_than: float) -> int:
    """Delete ``path``, folders included, without following links; returns bytes freed."""
    freed = 0
    try:
        found = path.lstat()
        if found.st_mtime > older_than:
            return 0
        if stat.S_ISDIR(found.st_mode):
            freed += sum(delete_tree(Path(entry.path), older_than) for entry in entries(path))
            path.rmdir()
        else:
            path.unlink()
            freed += found.st_size
    except OSError:
        pass  # in use or gone; the next sweep tries again
    return freed


TAG_NAME = "CACHEDIR.TAG"
_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This folder is a gpubuild cache. It may be deleted at any time; see https://bford.info/cachedir/
"""
_NEW = "new"  # no tag, but one could be made


def write_tag(directory: Path) -> None:
    """Give the cache ``directory`` a new tag. Raises ``OSError``."""
    temporary = directory / "tmp" / f"tag-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        temporary.write_text(_TEXT)
        temporary.replace(directory / TAG_NAME)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_place(directory: Path) -> str:
    """A short text for the cache that ``directory`` is now; empty when it cannot be written."""
    # Asked about every hit, so: no Path objects, and the digest is made once.
    try:
        tag = os.stat(f"{directory}/{TAG_NAME}")  # noqa: PTH116
    except OSError:
        return _NEW if _may_write(directory) else ""
    writable = os.access(directory, os.W_OK | os.X_OK)
    return _name(str(directory), tag.st_ino, tag.st_mtime_ns) if writable else ""


@lru_cache(maxsize=8)
def _name(directory: str, inode: int, mtime_ns: int) -> str:
    return digest_bytes(f"{directory} {inode} {mtime_ns}".encode())[:16]


def _may_write(folder: Path) -> bool:
    """Whether ``folder`` can be written, or made, as far as permissions and mounts tell."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


_NAME = "size"
_MAX_TEXT = 20


def read_note(directory: Path) -> int | None:
    """Bytes in the blobs of the cache ``directory``; ``None`` when not counted."""
    try:
        text = (directory / _NAME).read_bytes()
    except OSError:
        return None
    digits, end = text[:-1], text[-1:]  # without its end a number may have lost digits
    return int(digits) if end == b"\n" and len(digits) <= _MAX_TEXT and digits.isdigit() else None


def write_note(directory: Path, size_bytes: int) -> None:
    """Set the note; failing to is no harm."""
    temporary = directory / "tmp" / f"size-{os.getpid()}-{os.urandom(4).hex()}"
    with suppress(OSError):
        try:
            temporary.write_text(f"{max(0, size_bytes)}\n")
            temporary.replace(directory / _NAME)
        finally:
            temporary.unlink(missing_ok=True)
