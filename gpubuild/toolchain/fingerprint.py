"""Own: gpubuild's own code as a tool, identified by content like every other."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from gpubuild.model.digest import digest_bytes, encode
from gpubuild.support.file_stamp import is_settled, stat_of
from gpubuild.toolchain.distribution import tree_fingerprint
from gpubuild.toolchain.memo import Memo
from gpubuild.toolchain.tool import Tool

# Our modules beside the engine's that decide what tools are told.
SHAPING = (
    "errors.py",
    "plan/library_search.py",
    "settings.py",
    "support/frozen.py",
    "support/text.py",
    "toolchain/clang_linker_wrapper.py",
    "toolchain/run.py",
    "toolchain/zig.py",
)


def own_code(package: Path, memo: Memo) -> Tool:
    """Whatever of our code can change a byte of output, so that editing it changes keys."""
    from gpubuild import __version__

    parts = ("engine", "model", "targets")
    code = sorted((*(file for part in parts for file in _sources(package, part)), *SHAPING))
    now = time.time_ns()
    stats = [stat_of(f"{package}/{file}") for file in code]
    seal = digest_bytes(encode((tuple(code), tuple(stats))))
    anchor = package / "__init__.py"  # the folder itself changes when Python is compiled
    known = memo.fact("own code", anchor)
    if isinstance(known, list) and known[:1] == [seal]:
        fingerprint = str(known[1])
    else:
        fingerprint = tree_fingerprint(package, code)
        if all(is_settled(stat, now) for stat in stats):
            memo.learn("own code", anchor, [seal, fingerprint])
    return Tool(
        name="gpubuild",
        command=(str(package),),
        version=__version__,
        fingerprint=fingerprint,
        source="this Python environment",
    )


def package_files(package: Path) -> Iterator[str]:
    """All that the package holds, files and folders, but for compiled Python."""
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (f"{folder}/{name}" for name in (*folders, *files))


def _sources(package: Path, part: str) -> Iterator[str]:
    """Files of code in a folder of the package and below it, relative to the package, with slashes."""
    for entry in os.scandir(package / part):
        if entry.is_dir():
            yield from _sources(package, f"{part}/{entry.name}")
        elif entry.name.endswith((".py", ".ll")):
            yield f"{part}/{entry.name}"
