"""``gpubuild cache``: look at the cache, or empty it."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path

from gpubuild.cache.protocol import Store
from gpubuild.cli.console import Console
from gpubuild.cli.document import dump
from gpubuild.cli.project import load
from gpubuild.model.project import CacheConfig


def stats(options: argparse.Namespace) -> int:
    """``cache stats``: count and measure."""
    console: Console = options.console
    store = _open(options)
    try:
        found = store.stats()
        _warn(console, store)
    finally:
        store.close()
    if options.json:
        console.print(dump({"schema": 1, **asdict(found)}))
        return 0
    console.print(f"cache        {found.directory}")
    console.print(f"results      {found.records}")
    console.print(f"blobs        {found.blobs}")
    console.print(f"size         {size_text(found.size_bytes)}")
    console.print(f"reclaimable  {size_text(found.reclaimable_bytes)}")
    if found.quarantined:
        console.print(f"set aside    {found.quarantined} damaged")
    return 0


def clear(options: argparse.Namespace) -> int:
    """``cache clear``: delete everything stored; the folder itself stays."""
    console: Console = options.console
    store = _open(options)
    try:
        directory = store.stats().directory
        freed = store.clear()
        _warn(console, store)
    finally:
        store.close()
    if options.json:
        console.print(dump({"schema": 1, "directory": directory, "freed_bytes": freed}))
    elif not console.quiet:
        console.print(f"{directory}: {size_text(freed)} freed")
    return 0


def size_text(size_bytes: int) -> str:
    """``12.3 MiB``: a size for people."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def _open(options: argparse.Namespace) -> Store:
    from gpubuild.cache.opening import open_store

    given: Path | None = options.cache_dir.absolute() if options.cache_dir else options.settings.cache_dir
    # A folder that was named needs no project file to be looked at.
    config = CacheConfig(directory=given) if given else replace(load(options).cache, remote=None)
    return open_store(config)


def _warn(console: Console, store: Store) -> None:
    for warning in store.warnings:
        console.warning(warning)
