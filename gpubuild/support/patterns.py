"""Patterns of files: ``src/*.mlir``, ``**/*.c``."""

from __future__ import annotations

import os

_BUILD = ".gpubuild"  # in every build folder


def is_pattern(text: str) -> bool:
    """Whether ``text`` is a pattern, unless a file has this name."""
    return any(character in text for character in "*?[")


def matches(folder: str, pattern: str) -> list[str]:
    """Return the matching files as sorted absolute paths; ``pattern`` is relative to ``folder``.

    ``**`` stands for any folders, except links to folders, which may lead in circles. Hidden files do not
    match, nor do files in build folders.
    """
    import glob  # most projects have no patterns

    whole = os.path.join(glob.escape(folder), pattern)
    found = {os.path.normpath(path) for path in glob.iglob(whole, recursive=True)}
    excluded: dict[str, bool] = {folder: False, "/": False}

    def is_excluded(path: str) -> bool:
        if path not in excluded:
            excluded[path] = (
                os.path.exists(os.path.join(path, _BUILD))
                or ("**" in pattern and os.path.islink(path))
                or is_excluded(os.path.dirname(path))
            )
        return excluded[path]

    return sorted(path for path in found if os.path.isfile(path) and not is_excluded(os.path.dirname(path)))
