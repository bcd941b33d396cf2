"""Missing: the error of an input that is not there, or cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

from gpubuild.errors import StepError


def missing_input(path: Path, root: Path) -> StepError:
    """Why ``path`` cannot be read, with what was probably meant; places are told relative to ``root``."""
    name = _shown(path, root)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # a pipe would wait for a writer
    except FileNotFoundError:
        pass
    except OSError as error:
        return StepError(
            f"{name} does not exist or cannot be read: {error.strerror}",
            stage="inputs",
            hint="make it readable for yourself" if isinstance(error, PermissionError) else "",
        )
    import difflib  # for mistakes only

    hint = "restore the file, or correct its path in targets.yaml"
    try:
        near = difflib.get_close_matches(path.name, {p.name for p in path.parent.iterdir()} - {path.name}, 1)
    except OSError:
        near = []
        hint = f"the folder {_shown(path.parent, root)} cannot be read; correct the path in targets.yaml"
    if near:
        hint = f"did you mean {_shown(path.parent / near[0], root)}?"
    return StepError(f"{name} does not exist or cannot be read", stage="inputs", hint=hint)


def _shown(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root) if path.is_relative_to(root) else path)
