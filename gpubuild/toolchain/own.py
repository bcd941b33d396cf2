"""Own: gpubuild's own code as a tool, identified by content like every other."""

from __future__ import annotations

from pathlib import Path

from gpubuild.toolchain.distribution import tree_fingerprint
from gpubuild.toolchain.tool import Tool

_SHAPING = ("run", "zig", "clang")  # our modules beside the engine's that decide what tools are told


def own_code(package: Path) -> Tool:
    """Whatever of our code can change a byte of output, so that editing it changes keys."""
    code = [p for p in (package / "engine").rglob("*") if p.suffix in (".py", ".ll", ".json", ".td")]
    code += (package / "model").glob("*.py")
    code += [package / "settings.py", *(package / "toolchain" / f"{n}.py" for n in _SHAPING)]
    from gpubuild import __version__

    return Tool(
        name="gpubuild",
        command=(str(package),),
        version=__version__,
        fingerprint=tree_fingerprint(package, code),
        source="this Python environment",
    )
