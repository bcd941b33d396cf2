"""Tag: the file CACHEDIR.TAG, which tells back-up programs, and us, which cache a folder is.

It is replaced whenever the cache begins anew, so that a build folder knows whether what it has
stored is still there to be expected.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from gpubuild.model.digest import digest_bytes

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
