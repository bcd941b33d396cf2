"""Libraries: the candidate files of ``-lfoo`` in a linker's search folders, and which of them exist.

The library found is known after the first link, and is watched from then on. A library that shadows
it, or appears beside it as a ``.so``, is noticed here: the existing candidates are part of the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

# The C library's come with the compiler, whose identity covers them.
OF_COMPILER = frozenset({"c", "m", "dl", "pthread", "rt", "stdc++", "gcc", "gcc_s"})
_SYSTEM_FOLDERS = ("/usr/local/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib")


def places(libraries: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """Return every file that the libraries could be, in the order in which linkers search."""
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
    folders += [str(folder) for name in _SYSTEM_FOLDERS for folder in sorted(Path("/").glob(name[1:]))]
    return tuple(
        dict.fromkeys(
            os.path.join(folder, name[1:] if name.startswith(":") else f"lib{name}.{suffix}")  # noqa: PTH118
            for name in names
            for folder in folders
            for suffix in ("so", "a")
        )
    )


def present(candidates: Sequence[str]) -> tuple[str, ...]:
    """Return the files that exist."""
    return tuple(path for path in candidates if os.path.exists(path))  # noqa: PTH110
