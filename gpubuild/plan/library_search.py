"""Libraries: where a linker looks for ``-lfoo``, and which of those files are there.

What it has found is known once it ran, and is watched from then on. A library that comes to stand
before that one, or beside it as a ``.so``, is seen here: what is there is part of the link's key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

# The C library's come with the compiler, whose identity covers them.
OF_COMPILER = frozenset({"c", "m", "dl", "pthread", "rt", "stdc++", "gcc", "gcc_s"})
SYSTEM_FOLDERS = ("/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")


def places(libraries: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """Every file that the libraries could be, in the order in which linkers look."""
    words = [word for flag in flags for word in re.split(r"[,=]", flag)]
    folders = []
    names = list(libraries)
    for word, before in zip(words, ["", *words], strict=False):
        if word.startswith("/") and before in ("-L", "--library-path", "-Wl"):
            folders.append(word)
        elif word.startswith("-L/"):
            folders.append(word.removeprefix("-L"))
        elif word.startswith("-l") and len(word) > 2:
            names.append(word.removeprefix("-l"))
    names = [name for name in dict.fromkeys(names) if name not in OF_COMPILER]
    if not names:
        return ()
    folders += [str(folder) for name in SYSTEM_FOLDERS for folder in sorted(Path("/").glob(name[1:]))]
    return tuple(
        dict.fromkeys(
            os.path.join(folder, name[1:] if name.startswith(":") else f"lib{name}.{suffix}")  # noqa: PTH118
            for name in names
            for folder in folders
            for suffix in ("so", "a")
        )
    )


def present(candidates: Sequence[str]) -> tuple[str, ...]:
    """Those of the files that are there."""
    return tuple(path for path in candidates if os.path.exists(path))  # noqa: PTH110
