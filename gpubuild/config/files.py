"""Files: paths named in targets.yaml, made absolute, with suggestions for a missing file."""

from __future__ import annotations

import os
from pathlib import Path

from gpubuild.config.yaml_tree import Node, Problems
from gpubuild.support.text import nearest


def resolve(root: Path, node: Node, problems: Problems) -> Path | None:
    """The absolute path that ``node`` names, relative to ``root``; symbolic links stay."""
    text = str(node.scalar)
    if text.startswith("~"):
        problems.add(
            node.place, "'~' is not expanded here; write the path out, relative to this file if you can"
        )
        return None
    if "\0" in text:
        problems.add(node.place, "a path cannot contain a NUL character")
        return None
    return Path(os.path.normpath(root / text))


def existing_file(root: Path, node: Node, problems: Problems, *, what: str) -> Path | None:
    """Like :func:`resolve`, but notes a problem when the file is missing or not a regular file."""
    path = resolve(root, node, problems)
    if path is None:
        return None
    try:
        if path.is_file():
            return path
        if path.is_dir():
            problems.add(node.place, f"{what} {node.describe()} is a folder, not a file")
            return None
        if path.exists():
            problems.add(node.place, f"{what} {node.describe()} is neither a file nor a folder")
            return None
    except OSError as error:
        problems.add(node.place, f"{what} {node.describe()} cannot be read: {error.strerror}")
        return None
    problems.add(node.place, f"{what} {node.describe()} does not exist{_nearby(root, path)}")
    return None


def existing_folder(root: Path, node: Node, problems: Problems, *, what: str) -> Path | None:
    """Like :func:`existing_file`, for a folder."""
    path = resolve(root, node, problems)
    if path is None:
        return None
    try:
        if path.is_dir():
            return path
        if path.exists():
            problems.add(node.place, f"{what} {node.describe()} is a file, not a folder")
            return None
    except OSError as error:
        problems.add(node.place, f"{what} {node.describe()} cannot be read: {error.strerror}")
        return None
    problems.add(node.place, f"{what} {node.describe()} does not exist{_nearby_folder(root, path, node.raw)}")
    return None


def _nearby_folder(root: Path, path: Path, written: str) -> str:
    slashes = written.replace("\\", "/")
    try:
        if slashes != written and (root / slashes).is_dir():
            return f" (write '{slashes}')"
        # As for a file in it: name the first missing part of the path.
        return _closest(root, path / "x").removeprefix(f": there is no folder '{_written(root, path)}'")
    except OSError:
        return ""


def _nearby(root: Path, path: Path) -> str:
    try:
        return _closest(root, path)
    except OSError:  # a folder that may not be listed: no suggestion, then
        return ""


def _closest(root: Path, path: Path) -> str:
    folder = path.parent
    while not folder.is_dir() and folder != folder.parent:
        folder = folder.parent
    if folder != path.parent:
        missing = path.relative_to(folder).parts[0]
        close = nearest(missing, [p.name for p in folder.iterdir() if p.is_dir()])
        hint = f"; did you mean '{_written(root, folder / close[0])}'?" if close else ""
        return f": there is no folder '{_written(root, folder / missing)}'{hint}"
    names = sorted(p.name for p in folder.iterdir() if p.is_file())
    same_stem = [n for n in names if n.partition(".")[0] == path.stem]
    close = nearest(path.name, names, 3) or same_stem[:3]
    found = " or ".join(f"'{_written(root, folder / name)}'" for name in close)
    return f" (did you mean {found}?)" if found else ""


def _written(root: Path, path: Path) -> str:
    """Return how targets.yaml would name ``path``, which may lie beside the project."""
    return os.path.relpath(path, root)
