"""What zig needs beside its command line: a place for its cache."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from gpubuild.errors import ToolNotFoundError
from gpubuild.settings import Settings


def zig_environment(command: Sequence[str]) -> dict[str, str]:
    """Variables to add when ``command`` starts zig, which has no HOME in a closed environment.

    The cache holds zig's own build of crt files and compiler-rt, 17-30 s of work, so it is the
    user's and outlives a build. Empty for any other tool.
    """
    if Path(command[0]).name != "zig":
        return {}
    cache = str(zig_cache(Settings.from_environ().user_cache))
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def zig_cache(user_cache: Path) -> Path:
    """The cache folder, created: in ``user_cache``, or per user in /tmp when that is not writable.

    Raises ``ToolNotFoundError`` when neither can be had.
    """
    fallback = Path("/tmp") / f"gpubuild-{os.getuid()}"  # noqa: S108 - ownership is checked
    for base in (user_cache, fallback):
        folder = base / "zig"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In a shared /tmp someone else may have made the folder first, to plant objects in it.
            entry = base.lstat() if base is fallback else None
        except OSError:
            continue
        if entry and (entry.st_uid != os.getuid() or not stat.S_ISDIR(entry.st_mode)):
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise ToolNotFoundError(
        f"zig has no place for its cache: neither {user_cache} nor {fallback} is writable by this user",
        hint="set XDG_CACHE_HOME to a writable folder",
    )
