"""File stamps: stat data that identify a file's content unless the clock is set back.

Imports nothing: the null build, which has a few milliseconds, starts here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from typing import TypeAlias

# Stat data of a file that was changed this recently may stay the same through another change:
# file systems count time in ticks, of up to two seconds.
RACY_NS = 2_000_000_000

Stat: TypeAlias = "tuple[int, int, int, int]"  # size in bytes, mtime and ctime in ns, inode


def stat_of(path: str | os.PathLike[str]) -> Stat:
    """Return the stat data that identify a file's content. Raises ``OSError``."""
    return stamp(os.stat(path))


def stamp(found: os.stat_result) -> Stat:
    """Return those of the data of ``found`` that identify a file's content."""
    return (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def is_settled(stat: Stat, at: int) -> bool:
    """Return whether a file read at ``at`` (ns) must have other stat data if its content changes."""
    return max(stat[1], stat[2]) < at - RACY_NS


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` exists. Raises ``OSError`` if the system does not answer.

    ``Path.exists`` returns ``False`` then, from Python 3.14 on.
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
