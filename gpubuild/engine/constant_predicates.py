"""Constant predicates: PTX's guards are registers, and LLVM writes a constant where it knows one.

The nvvm dialect writes a guarded instruction as inline assembly, ``@$0 instruction``. When the guard
turns out to be a constant, which a loop of one turn is enough for, LLVM writes ``@0 instruction``,
which ptxas refuses. ``@0`` is never right PTX, so that nothing else can be meant.
"""

from __future__ import annotations

import re

_GUARDED = re.compile(
    r"(?P<before>^[ \t]*|[;{}][ \t]*)@(?P<not>!?)(?P<guard>-?\d+)[ \t]+"
    r"(?P<instruction>[^;{}\n]*(?:\{[^;\n]*)?;)",
    re.MULTILINE,
)


def settle(ptx: str) -> str:
    """``ptx`` with instructions guarded by a constant written without it, or left out."""
    return _GUARDED.sub(_settled, ptx) if "@" in ptx else ptx


def _settled(match: re.Match[str]) -> str:
    taken = (int(match["guard"]) != 0) is not bool(match["not"])
    return match["before"] + (match["instruction"] if taken else "")
