"""Watching: notices when a file that a build has read is another one now.

By polling: a system call per file and look, some hundred files, a fifth of a second between looks.
That costs next to nothing, and it works on network folders and in containers, where notices from
the kernel do not arrive; the files include headers all over the system, which lie in no one folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import TypeAlias
from zlib import crc32

from gpubuild.build.include_scan import surroundings
from gpubuild.build.state import BuildState
from gpubuild.errors import GpubuildError
from gpubuild.model.project import Project
from gpubuild.model.step import StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.library_search import places
from gpubuild.plan.sources import SourcePlanner, find_variants
from gpubuild.support.file_stamp import Stat, stamp

Seen: TypeAlias = "Mapping[Path, Stat | None]"  # None: there is no such file

_MOST_FOLDERS = 2_000
LOOK_SECONDS = 0.2
_QUIET_SECONDS = 0.1  # an editor or `git switch` is done when nothing changed for so long
_PATIENCE_SECONDS = 2.0  # but a file that never rests is built as it is


def look(paths: Iterable[Path]) -> dict[Path, Stat | None]:
    """What the files are like now; of folders, which names they hold."""
    found: dict[Path, Stat | None] = {}
    for path in paths:
        try:
            found[path] = _stat(path)
        except OSError:
            found[path] = None
    return found


def _stat(path: Path) -> Stat:
    found = path.stat()
    if S_ISDIR(found.st_mode):
        return _names_in(path)
    return stamp(found)


def _names_in(folder: Path) -> Stat:
    """Stands for a folder's files, but for those that editors make beside one that is open."""
    names = sorted(
        name
        for name in os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
        if not name.startswith((".", "#")) and not name.endswith("~") and not name.isdigit()
    )
    return (len(names), crc32("\0".join(names).encode(errors="surrogateescape")), 0, 0)


def changes(before: Seen) -> list[Path]:
    """Files that are not what they were, in the order of ``before``."""
    now = look(before)
    return [path for path in before if now[path] != before[path]]


def named_files(file: Path, load: Callable[[Path], Project]) -> list[Path]:
    """The project file and all that it names; only itself when it cannot be read."""
    found = [file.absolute()]
    try:
        project = load(file)
    except GpubuildError:
        return found
    for target in project.targets.values():
        found += target.device_libs
    for program in project.programs.values():
        found += program.sources
        found += [path for libraries in program.device_libs.values() for path in libraries]
        found += [path for override in program.modules.values() for path in override.device_libs]
    return list(dict.fromkeys(found))


def folders_in(root: Path, leave_out: Path) -> list[Path]:
    """Folders of a project, to be watched after a failure: what was missing may come in any of them.

    Not ``leave_out``, the build folder, nor caches and hidden folders; and not more than take no time.
    """
    found: list[Path] = []
    for folder, inner, files in os.walk(root):
        path = Path(folder)
        if path == leave_out or "CACHEDIR.TAG" in files:
            inner.clear()
            continue
        found.append(path)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if len(found) >= _MOST_FOLDERS:
            break
    return found


def read_by_build(layout: Layout) -> dict[Path, Stat]:
    """Every file outside the build folder that builds have read, as it was when one did."""
    known = BuildState(layout.state_file, layout.root).files.dump()
    found: dict[Path, Stat] = {}
    for name, (stat, _, _) in known.items():
        path = Path(name)
        if not path.is_relative_to(layout.build_dir):
            size, mtime, ctime, inode = stat
            found[path] = (size, mtime, ctime, inode)
    return found


def around_build(layout: Layout, project: Project, *, ok: bool) -> dict[Path, Stat | None]:
    """Where a file that comes or goes changes which headers and libraries are found, as it was.

    What has come since the last build looked counts as not there, if that build was ``ok``: one that
    was not may never have looked.
    """
    found: dict[Path, Stat | None] = {}
    for program in project.programs.values():
        candidates = [Path(path) for path in places(program.link_libraries, program.link_flags)]
        found |= look(candidates)
    state = BuildState(layout.state_file, layout.root)
    sources = SourcePlanner(project=project, layout=layout, triple="", variants=find_variants(project))
    for step in sources.scan_steps(tuple(project.programs.values())).values():
        record = state.record(step.id)
        if step.kind is not StepKind.PREPROCESS or record is None:
            continue
        surroundings_now = surroundings(record.result.discovered, step, layout.root)
        now = surroundings_now.digest(layout.root)
        read = {path for path, _ in record.result.discovered}
        others = [Path(path) for path in surroundings_now.present - read]
        outdated = ok and now and record.around and now != record.around
        found |= dict.fromkeys(others) if outdated else look(others)
        found |= dict.fromkeys(map(Path, surroundings_now.absent))
    return found


def baseline(before: Seen, named: Iterable[Path], read: Mapping[Path, Stat]) -> dict[Path, Stat | None]:
    """What a build that was begun after ``before`` has seen, to compare later looks with.

    A file of an earlier look counts as it was then, so that one that was saved while the build
    ran is noticed. One that this build read for the first time counts as the build read it.
    """
    seen: dict[Path, Stat | None] = {}
    for path in (*named, *read):
        if path not in seen:
            seen[path] = before[path] if path in before else read.get(path)
    return seen


def settle(
    seen: Seen, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> list[Path]:
    """Wait until files that are changing have come to rest; what differs from ``seen`` then."""
    deadline = clock() + _PATIENCE_SECONDS
    last = look(seen)
    while clock() < deadline:
        sleep(_QUIET_SECONDS)
        now = look(seen)
        if now == last:
            break
        last = now
    return [path for path in seen if last[path] != seen[path]]
