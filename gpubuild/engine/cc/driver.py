"""Driver: run the C or C++ compiler driver (gcc, clang or ``zig cc``) for a step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.toolchain.run import ToolRun, run_tool

# `zig cc` would add its sanitizer to unoptimised code and debug information to all of it.
COMMON_FLAGS = ("-fPIC", "-frandom-seed=0", "-fno-sanitize=undefined")

# Without it `__DATE__` and `__TIME__` would put the clock into objects; gcc and clang both heed it.
_ENVIRONMENT = {"SOURCE_DATE_EPOCH": "0"}


def run_driver(io: StepIO, tool: str, arguments: Sequence[str | Path], *, cwd: Path | None = None) -> ToolRun:
    """Run tool ``tool`` (``cc``, ``cxx`` or ``ar``) with ``arguments`` in the scratch folder.

    Does not raise for a failing exit code: the caller knows what the messages are about.
    """
    return run_tool([*io.tool(tool), *arguments], cwd=cwd or io.scratch, environment=_ENVIRONMENT)


def first_lines(text: bytes, count: int = 40) -> str:
    """The beginning of what a tool printed: one mistake in a header can print megabytes."""
    lines = text.decode(errors="replace").strip().splitlines()
    if len(lines) > count:
        lines = [*lines[:count], f"… {len(lines) - count} more lines"]
    return "\n".join(lines)
