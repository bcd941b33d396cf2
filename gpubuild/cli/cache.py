"""``gpubuild cache``: show, check, shrink, copy and clear the cache."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.cache.open_store import locate, user_cache
from gpubuild.cli.console import Console
from gpubuild.cli.json_document import dump
from gpubuild.cli.options import build_folder, load
from gpubuild.errors import EXIT_STEP_FAILED, UsageError
from gpubuild.model.project import CacheConfig
from gpubuild.plan.layout import Layout
from gpubuild.support.text import SIZE, aligned, counted, size_of

if TYPE_CHECKING:
    from gpubuild.build.log import LoggedStep
    from gpubuild.cache.local.disk_store import DiskStore

_LOOKED_UP = ("hit-local", "hit-remote", "ran")  # statuses of steps after a look-up in the cache
_SHOWN_BUILDS = 10
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


def stats(options: argparse.Namespace) -> int:
    """Run ``cache stats``: show sizes, and the hit rates of the last builds in the build folder."""
    from gpubuild.build.log import log_file, read_log

    console: Console = options.console
    store, config = _open(options)
    found = store.stats()
    _close(console, store)
    builds = [
        steps
        for build in read_log(log_file(_layout(options))).builds
        if (steps := [step for step in build.steps if step.status in _LOOKED_UP])
    ]
    groups: dict[tuple[str, str], list[LoggedStep]] = {}
    for step in sorted(chain.from_iterable(builds), key=lambda step: (step.kind, step.target)):
        groups.setdefault((step.kind, step.target), []).append(step)
    if options.json:
        console.print(
            dump(
                {
                    "schema": 1,
                    **asdict(found),
                    "max_size_bytes": config.max_size_bytes,
                    "hit_rates": [round(_rate(steps), 4) for steps in builds],
                    "groups": [
                        {"kind": kind, "target": target, **_counts(steps)}
                        for (kind, target), steps in groups.items()
                    ],
                }
            )
        )
        return 0
    limit = f" of {size_text(config.max_size_bytes)}" if config.max_size_bytes else ""
    console.print(f"cache        {found.directory}")
    console.print(f"results      {found.records}")
    console.print(f"blobs        {found.blobs}")
    console.print(f"size         {size_text(found.size_bytes)}{limit}")
    console.print(f"reclaimable  {size_text(found.reclaimable_bytes)}")
    if found.quarantined:
        console.print(f"set aside    {found.quarantined} damaged")
    if last := builds[-_SHOWN_BUILDS:]:
        which = "build" if len(last) == 1 else f"{len(last)} builds"
        rates = " ".join(f"{_rate(steps):.0%}" for steps in last)
        console.print(f"hit rate     {rates} (last {which} of this project)")
        console.print()
        for line in _table(groups):
            console.print(line)
    return 0


def clear(options: argparse.Namespace) -> int:
    """Run ``cache clear``: delete everything stored; the folder itself stays."""
    console: Console = options.console
    store, config = _open(options, only_deletes=True)
    named = options.cache_dir or options.settings.cache_dir
    if not named and config.directory == user_cache(options.settings)[0]:
        raise UsageError(
            f"{config.directory} has the results of all your projects",
            hint=f"`gpubuild cache clear --cache-dir {config.directory}` deletes them all; "
            "`gpubuild cache gc --max-age 14d` those not used for two weeks",
        )
    freed = store.clear()
    _require_writable(console, store, freed)
    _close(console, store)
    if options.json:
        console.print(dump({"schema": 1, "directory": str(config.directory), "freed_bytes": freed}))
    elif not console.quiet:
        console.print(f"{config.directory}: {size_text(freed)} freed")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Run ``cache verify``: check everything; exit code 1 for damaged files."""
    from gpubuild.cache.local import upkeep

    console: Console = options.console
    store, config = _open(options)
    found = upkeep.verify(store, workers=len(os.sched_getaffinity(0)))
    _close(console, store)
    if options.json:
        console.print(
            dump({"schema": 1, "directory": str(config.directory), "ok": found.ok, **asdict(found)})
        )
        return 0 if found.ok else EXIT_STEP_FAILED
    for digest in found.damaged:
        console.print(f"damaged, set aside  {digest}")
    for digest in found.unreadable:
        console.print(f"cannot be read      {digest}")
    dropped = f"; {counted(found.incomplete, 'incomplete result')} dropped" if found.incomplete else ""
    bad = len(found.damaged) + len(found.unreadable)
    console.print(
        f"{config.directory}: {counted(found.records, 'result')}, {counted(found.blobs, 'blob')}, "
        f"{size_text(found.size_bytes)}: " + (f"{bad} damaged{dropped}" if bad else f"no damage{dropped}")
    )
    return 0 if found.ok else EXIT_STEP_FAILED


def gc(options: argparse.Namespace) -> int:
    """Run ``cache gc``: delete the least recently used results."""
    from gpubuild.cache.local import upkeep

    console: Console = options.console
    size = None if options.max_size is None else parse_size(options.max_size)
    age = None if options.max_age is None else parse_age(options.max_age)
    if options.background:
        with suppress(OSError):
            os.nice(19)
    store, config = _open(options, only_deletes=True)
    if size is None and config.max_size_bytes:
        size = config.max_size_bytes
    done = upkeep.collect(store, max_size_bytes=size, max_age_seconds=age)
    _require_writable(console, store, done.freed_bytes)
    _close(console, store)
    if options.json:
        console.print(dump({"schema": 1, "directory": str(config.directory), **asdict(done)}))
    elif done.busy:
        console.print(f"{config.directory}: another `cache gc` is running")
    elif not console.quiet:
        console.print(
            f"{config.directory}: {size_text(done.freed_bytes)} freed, "
            f"{counted(done.records, 'result')} dropped, {size_text(done.kept_bytes)} kept"
        )
    return 0


def export(options: argparse.Namespace) -> int:
    """Run ``cache export``: write the results of the build folder, or all, to one file."""
    from gpubuild.build.state import BuildState
    from gpubuild.cache.local.archive import export_archive

    console: Console = options.console
    files = [path for path in (options.archive, options.output) if path is not None]
    if len(files) != 1:
        raise UsageError(
            "name the one file that cache export writes",
            hint="gpubuild cache export -o gpubuild-cache.tar.gz",
        )
    (archive,) = files
    store, config = _open(options)
    try:
        layout = _layout(options)
        state = BuildState(layout.state_file, layout.root)
        keys = None if options.all else {record.key for record in state.records().values()}
        done = export_archive(store, archive, keys)
    finally:
        _close(console, store)
    if options.json:
        console.print(dump({"schema": 1, "file": str(archive), **asdict(done)}))
    elif not console.quiet:
        console.print(f"{archive}: {counted(done.records, 'result')}, {size_text(done.size_bytes)}")
    if not done.records:
        console.warning(
            f"nothing to export from {config.directory}: build first, with this cache, or use --all"
        )
    return 0


def import_(options: argparse.Namespace) -> int:
    """Run ``cache import``: exit code 1 if a part of the file could not be imported."""
    from gpubuild.cache.local.archive import DEFAULT_LIMIT_BYTES, import_archive

    console: Console = options.console
    limit = DEFAULT_LIMIT_BYTES if options.max_size is None else parse_size(options.max_size)
    store, config = _open(options)
    try:
        done = import_archive(store, options.archive, limit_bytes=limit)
    finally:
        _close(console, store)
    if options.json:
        console.print(dump({"schema": 1, "directory": str(config.directory), **asdict(done)}))
    elif not console.quiet:
        console.print(
            f"{config.directory}: {counted(done.records, 'result')}, {size_text(done.size_bytes)} new"
        )
    for problem in done.problems:
        console.warning(f"{options.archive}: {problem}")
    return EXIT_STEP_FAILED if done.problems else 0


def size_text(size_bytes: int) -> str:
    """Return a size such as ``12.3 MiB``."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def parse_size(text: str) -> int:
    """Return the bytes of ``2GiB``, ``500 MB`` or ``1000000``. Raises ``UsageError``."""
    if not re.fullmatch(SIZE, text):
        raise UsageError(f"{text!r} is not a size", hint="write a number of bytes, or 2GiB for example")
    return size_of(text)


def parse_age(text: str) -> float:
    """Return the seconds of ``14d``, ``12h`` or ``30m``. Raises ``UsageError``."""
    found = re.fullmatch(r"([0-9]{1,9})([smhdw])", text)
    if not found:
        raise UsageError(f"{text!r} is not a length of time", hint="write 14d, 12h or 30m for example")
    return int(found[1]) * _SECONDS[found[2]]


def _open(options: argparse.Namespace, *, only_deletes: bool = False) -> tuple[DiskStore, CacheConfig]:
    from gpubuild.cache.local.disk_store import DiskStore
    from gpubuild.cache.local.folder import trust_everyone, why_untrusted

    shared = only_deletes or options.settings.cache_shared
    given: Path | None = options.cache_dir.absolute() if options.cache_dir else options.settings.cache_dir
    # A named folder needs no project file.
    config, root = CacheConfig(directory=given) if given else None, None
    if config is None:
        project = load(options)
        directory, max_size = locate(project.cache, options.settings, project.root)
        config, root = CacheConfig(directory=directory, max_size_bytes=max_size), project.root
    assert config.directory is not None  # noqa: S101
    audit = trust_everyone if shared else partial(why_untrusted, project=root)
    return DiskStore(config.directory, audit=audit), config


def _require_writable(console: Console, store: DiskStore, freed_bytes: int) -> None:
    """Raise ``UsageError`` if nothing was deleted from a cache because it cannot be written."""
    if freed_bytes or store.writable or store.unusable:
        return
    for warning in store.warnings:
        console.warning(warning)
    raise UsageError(
        f"the cache {store.directory} cannot be written: nothing was deleted",
        hint="name another folder with --cache-dir, or make this one writable",
    )


def _close(console: Console, store: DiskStore) -> None:
    """Close the cache and show warnings. Raises ``UsageError`` for an unusable cache."""
    store.close()
    if store.unusable:
        raise UsageError(
            f"cannot use the cache {store.directory}: {store.unusable}",
            hint="only the user that made a cache can use it: choose another folder with --cache-dir",
        )
    for warning in store.warnings:
        console.warning(warning)


def _layout(options: argparse.Namespace) -> Layout:
    root = options.file.absolute().parent
    return Layout(root=root, build_dir=build_folder(options, root))


def _counts(steps: Sequence[LoggedStep]) -> dict[str, int]:
    return {status: sum(step.status == status for step in steps) for status in _LOOKED_UP}


def _rate(steps: Sequence[LoggedStep]) -> float:
    return sum(step.status != "ran" for step in steps) / len(steps)


def _table(groups: Mapping[tuple[str, str], Sequence[LoggedStep]]) -> list[str]:
    rows = [("kind", "target", "hit rate", "hits", "remote", "ran")]
    for (kind, target), steps in groups.items():
        hits, remote, ran = map(str, _counts(steps).values())
        rows.append((kind, target or "-", f"{_rate(steps):.0%}", hits, remote, ran))
    return aligned(rows, [False, False, True, True, True, True])
