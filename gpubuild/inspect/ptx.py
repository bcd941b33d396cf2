"""PTX: the chip and the kernels that the text of a PTX module names."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


def is_ptx(text: str) -> bool:
    """Whether this is the text of a PTX module."""
    return bool(_VERSION.search(text) and _TARGET.search(text))


def describe(text: str) -> tuple[str | None, list[str]]:
    """The chip and the names of the entry functions, in order."""
    text = _COMMENT.sub(" ", text)
    target = _TARGET.search(text)
    return (target[1] if target else None), _ENTRY.findall(text)
