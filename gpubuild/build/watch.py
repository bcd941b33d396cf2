"""Watch the files that a build has read for changes.

By polling: a system call for each of some hundred files, five times a second. That costs little and
works on network folders and in containers, which deliver no notifications. The files include
headers in many folders of the system.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from stat import S_ISDIR
from typing import TypeAlias
from zlib import crc32

from gpubuild.build.include_scan import surroundings
from gpubuild.build.null_build_record import named_files
from gpubuild.build.state import BuildState
from gpubuild.errors import GpubuildError
from gpubuild.model.project import Project
from gpubuild.model.step import StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.library_search import places
from gpubuild.plan.sources import SourcePlanner, find_variants, with_generated
from gpubuild.support.file_stamp import Stat, stamp
from gpubuild.support.patterns import is_pattern

Seen: TypeAlias = "Mapping[Path, Stat | None]"  # None: there is no such file

_MOST_FOLDERS = 2_000
LOOK_SECONDS = 0.2
_QUIET_SECONDS = 0.05  # an editor or `git switch` is done when nothing changed for so long
_PATIENCE_SECONDS = 2.0  # a file that changes all the time is built nevertheless


def look(paths: Iterable[Path]) -> dict[Path, Stat | None]:
    """Return the stat data of files, and of folders a checksum of the names in them."""
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
    """Return a checksum of a folder's names, without temporary files of editors."""
    names = sorted(
        name
        for name in os.listdir(folder)  # noqa: PTH208 - names are all that is wanted
        if not name.startswith((".", "#")) and not name.endswith("~") and not name.isdigit()
    )
    return (len(names), crc32("\0".join(names).encode(errors="surrogateescape")), 0, 0)


def changes(before: Seen) -> list[Path]:
    """Return changed files, in the order of ``before``."""
    now = look(before)
    return [path for path in before if now[path] != before[path]]


def configured_files(file: Path, load: Callable[[], Project]) -> list[Path]:
    """Return the project file, the files that it names, and folders in which patterns match."""
    found = [file.absolute()]
    with suppress(GpubuildError):
        project = load()
        found += named_files(project)
        for folder, pattern, _ in project.patterns:  # a new file may match
            fixed = takewhile(lambda part: not is_pattern(part), Path(pattern).parts)
            found += folders_in(Path(folder, *fixed), Path())
    return list(dict.fromkeys(found))


def folders_in(root: Path, leave_out: Path) -> list[Path]:
    """Return the folders of a project, to watch after a failure: a missing file may appear in any.

    Without ``leave_out``, the build folder, without caches and hidden folders, and not too many.
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
    """Return every file outside the build folder that builds have read, with its stat data then."""
    state = BuildState(layout.state_file, layout.root)
    for record in state.records().values():
        for name, _ in record.result.discovered:
            if state.files.known(Path(name)) is None:  # a header that only a worker has read
                state.files.digest(Path(name))
    found: dict[Path, Stat] = {}
    for name, (stat, _, _) in state.files.dump().items():
        path = Path(name)
        if not path.is_relative_to(layout.build_dir):
            size, mtime, ctime, inode = stat
            found[path] = (size, mtime, ctime, inode)
    return found


def around_build(layout: Layout, project: Project, *, ok: bool) -> dict[Path, Stat | None]:
    """Return paths whose creation or deletion changes which headers and libraries are found.

    A file that is newer than the last build counts as missing if that build was ``ok``: a failed one
    may never have searched for it.
    """
    found: dict[Path, Stat | None] = {}
    for program in project.programs.values():
        candidates = [Path(path) for path in places(program.link_libraries, program.link_flags)]
        found |= look(candidates)
    state = BuildState(layout.state_file, layout.root)
    project = with_generated(project, layout)
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
    """Return what a build that began after ``before`` has seen, to compare with later.

    A file in ``before`` has its stat data from then, so that a change during the build is noticed.
    Others have those from when the build read them.
    """
    seen: dict[Path, Stat | None] = {}
    for path in (*named, *read):
        if path not in seen:
            seen[path] = before[path] if path in before else read.get(path)
    return seen


def settle(
    seen: Seen, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic
) -> list[Path]:
    """Wait until no file changes any more. Return what then differs from ``seen``."""
    deadline = clock() + _PATIENCE_SECONDS
    last = look(seen)
    while clock() < deadline:
        sleep(_QUIET_SECONDS)
        now = look(seen)
        if now == last:
            break
        last = now
    return [path for path in seen if last[path] != seen[path]]
