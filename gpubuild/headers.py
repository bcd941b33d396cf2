"""Headers: whether a cached preprocessor run read what the preprocessor would read here and now.

Which files a C source includes is known only after preprocessing it, so the key of that step cannot
cover them. A cached run lists them instead, and serves only where all of them have the same
content, and where no file of the project has come to stand before one of them on the way that
``#include "…"`` is looked up.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult

# A quoted name of up to this many parts is looked for beside the including file: "sys/types.h" has two.
_MAX_PARTS = 6
# What these expand to depends on more than the content of files.
_VOLATILE = (b"__has_include", b"__has_embed", b"__DATE__", b"__TIME__", b"__TIMESTAMP__")


def to_store(result: ActionResult, source: Path, root: Path) -> ActionResult | None:
    """``result`` with the project's own headers named relative to ``root``, or ``None``: do not store it.

    The latter when a file of the project asks what is there or what time it is.
    """
    own = [source, *(Path(p) for p, _ in result.discovered if Path(p).is_relative_to(root))]
    try:
        if any(word in path.read_bytes() for path in own for word in _VOLATILE):
            return None
    except OSError:
        return None
    return replace(
        result,
        discovered=tuple(
            (str(Path(p).relative_to(root)) if Path(p).is_relative_to(root) else p, digest)
            for p, digest in result.discovered
        ),
    )


def from_store(
    stored: ActionResult, source: Path, root: Path, digest_of: Callable[[Path], Digest | None]
) -> ActionResult | None:
    """``stored`` with absolute names, if every header is as it was then; otherwise ``None``."""
    found = tuple((str(root / path), digest) for path, digest in stored.discovered)
    if any(digest_of(Path(path)) != digest for path, digest in found):
        return None
    folders = {source.parent, *(Path(p).parent for p, _ in found if Path(p).is_relative_to(root))}
    outside = [Path(p).parts for p, _ in found if not Path(p).is_relative_to(root)]
    for folder in folders:
        for parts in outside:
            names = (folder.joinpath(*parts[-n:]) for n in range(1, min(len(parts), _MAX_PARTS + 1)))
            if any(map(os.path.lexists, names)):
                return None
    return replace(stored, discovered=found)
