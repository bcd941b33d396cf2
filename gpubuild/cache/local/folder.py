"""Tag: the file CACHEDIR.TAG, which tells back-up programs, and us, which cache a folder is.

It is replaced whenever the cache begins anew, so that a build folder knows whether what it has
stored is still there to be expected.

Folders of a cache: what lies in them, and how to be rid of it.

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
    """Bytes in the blobs of the cache ``directory``; ``None`` when nobody has counted."""
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
