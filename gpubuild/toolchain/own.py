"""Own: gpubuild's own code as a tool, identified by content like every other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gpubuild.toolchain.distribution import tree_fingerprint
from gpubuild.toolchain.tool import Tool

# Our modules beside the engine's that decide what tools are told.
_SHAPING = ("settings.py", "toolchain/run.py", "toolchain/zig.py", "toolchain/clang.py")


def own_code(package: Path) -> Tool:
    """Whatever of our code can change a byte of output, so that editing it changes keys."""
    from gpubuild import __version__

    code = (*_sources(package, "engine"), *_sources(package, "model"), *_SHAPING)

    return Tool(
        name="gpubuild",
        command=(str(package),),
        version=__version__,
        fingerprint=tree_fingerprint(package, code),
        source="this Python environment",
    )


def _sources(package: Path, part: str) -> Iterator[str]:
    """Files of code in a folder of the package and below it, relative to the package, with slashes."""
    for entry in os.scandir(package / part):
        if entry.is_dir():
            yield from _sources(package, f"{part}/{entry.name}")
        elif entry.name.endswith((".py", ".ll")):
            yield f"{part}/{entry.name}"
