"""``gpubuild clean``: remove the files that gpubuild made in the build folder, and no others."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.cli.options import build_folder, load
from gpubuild.errors import GpubuildError, UsageError, WorkspaceError
from gpubuild.model.events import Silent
from gpubuild.plan.layout import Layout
from gpubuild.support.text import counted, shown_path


def execute(options: argparse.Namespace) -> int:
    """Run the command. The project file need not exist: its path tells where the build folder is."""
    console: Console = options.console
    root = options.file.absolute().parent
    build_dir = build_folder(options, root)
    layout = Layout(root=root, build_dir=build_dir)
    if not build_dir.exists():
        _refuse_workspace(options)
        console.print(f"nothing to clean: {shown_path(build_dir)} does not exist")
        return 0
    refuse_dangerous(build_dir, root)
    if not layout.private.is_dir():
        raise UsageError(
            f"{shown_path(build_dir)} was not made by gpubuild (it has no folder {layout.private.name})",
            hint="name the build folder with --build-dir, or delete this folder yourself",
        )
    from gpubuild.build.lock import build_lock

    with build_lock(layout, Silent()):
        recorded = recorded_files(layout)
        files = [path for path in recorded if path.is_file()]
        if options.dry_run:
            for path in files:
                console.print(f"would remove {shown_path(path)}")
            console.print(f"would remove {shown_path(layout.private)}")
            return 0
        try:
            for path in files:
                path.unlink(missing_ok=True)
            folders = {parent for path in recorded for parent in path.parents if build_dir in parent.parents}
            for folder in sorted(folders, key=lambda p: -len(p.parts)):
                _remove_if_empty(folder)
            _remove_private(layout)
        except OSError as error:
            raise UsageError(
                f"cannot delete all of {shown_path(build_dir)}: {error.filename}: {error.strerror}",
                hint=f"delete {shown_path(build_dir)} as the owner of its files, or as root",
            ) from error
        gone = _remove_if_empty(build_dir)
    rest = [] if gone else _names_in(build_dir, but=layout.private.name)
    if rest and not console.quiet:
        listed = ", ".join(rest[:5]) + ", …" * (len(rest) > 5)
        console.print(f"kept {shown_path(build_dir)}: it has other files: {listed}")
    if not console.quiet:
        console.print(f"removed {counted(len(files), 'file')} from {shown_path(build_dir)}")
    return 0


def _refuse_workspace(options: argparse.Namespace) -> None:
    """Raise ``WorkspaceError`` for a workspace, whose projects have the build folders."""
    try:
        load(options)
    except WorkspaceError:
        raise
    except GpubuildError:  # it need not be valid
        pass


def refuse_dangerous(build_dir: Path, root: Path) -> None:
    """Raise ``UsageError`` for a folder that contains the project or the current folder, and for links."""
    real = build_dir.resolve()
    for what, other in (("the project", root), ("the current folder", Path.cwd())):
        if other.resolve() == real or real in other.resolve().parents:
            raise UsageError(
                f"refusing to clean {build_dir}: it is or contains {what}",
                hint="name the build folder with --build-dir",
            )
    if build_dir.is_symlink() or not build_dir.is_dir():
        raise UsageError(f"refusing to clean {build_dir}: it is not a folder")


def recorded_files(layout: Layout) -> list[Path]:
    """Return the outputs of past builds outside the private folder; a failed one has deleted some."""
    from gpubuild.build.log import log_file, read_made
    from gpubuild.build.state import BuildState

    state = BuildState(layout.state_file, layout.root)
    made = {*(read_made(log_file(layout)) if state.lost else state.orphans)}
    for record in state.records().values():
        made.update(record.origin.outputs if record.origin else ())
    found = (path for path in map(Path, made) if layout.private not in path.parents)
    return sorted(path for path in found if layout.owns(path))


def _remove_private(layout: Layout) -> None:
    """Delete the private folder. Other builds wait for its lock, which is deleted last.

    A build that waited makes another lock, in a folder that stays.
    """
    for path in layout.private.iterdir():
        if path == layout.lock_file:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    layout.lock_file.unlink(missing_ok=True)
    _remove_if_empty(layout.private)


def _names_in(folder: Path, *, but: str) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if path.name != but)
    except OSError:
        return []


def _remove_if_empty(folder: Path) -> bool:
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
