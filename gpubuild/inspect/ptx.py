"""PTX: the chip and the kernels that the text of a PTX module names."""

from __future__ import annotations

import re

from gpubuild.inspect.records import ImageFacts, Kernel

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


def describe(data: bytes) -> ImageFacts | None:
    """The chip and the entry functions; ``None`` for what is not the text of a PTX module."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text or not (_VERSION.search(text) and _TARGET.search(text)):
        return None
    text = _COMMENT.sub(" ", text)
    target = _TARGET.search(text)
    kernels = tuple(Kernel(name=name) for name in _ENTRY.findall(text))
    return ImageFacts(format="assembly", chip=target[1] if target else None, kernels=kernels)
