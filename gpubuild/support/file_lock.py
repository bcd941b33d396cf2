"""File locks, which the kernel releases when their owner dies. A caller must be right without them, too."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path


def try_lock(handle: int) -> bool | None:
    """Try to take an exclusive lock: whether we have it; ``None`` where locks are not supported."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def is_file_of(handle: int, path: Path) -> bool:
    """Return whether the open file is the one at ``path``: it may have been deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
