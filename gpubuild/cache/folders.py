"""Folders of a cache: what lies in them, and how to be rid of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


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
