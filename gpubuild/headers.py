"""Headers: whether a cached preprocessor run read what the preprocessor would read here and now.

Which files a C source includes is known only after preprocessing it, so the key of that step cannot
cover them. A cached run lists them instead, and serves only where all of them have the same
content, and where no file of the project has come to stand before one of them on the way that
``#include "…"`` is looked up.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, Step, StepKind

# A quoted name of up to this many parts is looked for beside the including file: "sys/types.h" has two.
_MAX_PARTS = 6
# What these expand to depends on more than the content of files.
_VOLATILE = (b"__has_include", b"__has_embed", b"__DATE__", b"__TIME__", b"__TIMESTAMP__")
_ASKS = re.compile(rb'__has_(?:include|include_next|embed)\s*\(\s*["<]([^">\n]+)[">]')
_ASKS_BY_MACRO = re.compile(rb"__has_(?:include|include_next|embed)\s*\(\s*[^\s\"<]")
# Compilers look here before they look in /usr/include.
_FIRST_IN_SYSTEM = "/usr/local/include"


def to_store(result: ActionResult, source: Path, root: Path) -> ActionResult | None:
    """``result`` with the project's own headers named relative to ``root``, or ``None``: do not store it.

    The latter when a file of the project asks what is there or what time it is, or
    includes one from a folder above.
    """
    if any(".." in Path(p).parts for p, _ in result.discovered):
        return None  # `root/../a.h`: which file that is depends on links
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
    for folder in (*folders, Path(_FIRST_IN_SYSTEM)):
        for parts in outside:
            if folder.parts == parts[: len(folder.parts)]:
                continue  # one from there: what it is has been checked
            names = (folder.joinpath(*parts[-n:]) for n in range(1, min(len(parts), _MAX_PARTS + 1)))
            if any(map(os.path.lexists, names)):
                return None
    return replace(stored, discovered=found)


def around(step: Step, result: ActionResult, root: Path) -> str:
    """The digest of a preprocessor run's surroundings; empty when not known, and for other steps."""
    if step.kind is not StepKind.PREPROCESS:
        return ""
    return surroundings(result.discovered, step.inputs[0].path, root).digest(root)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Paths that could change what a preprocessor run reads by coming or going.

    ``known`` is false where a source asks for a file whose name only the preprocessor knows.
    """

    present: frozenset[str]
    absent: frozenset[str]
    known: bool

    def digest(self, root: Path) -> str:
        """A digest of what is there, the same in every checkout; empty when not known."""
        there = sorted(path.removeprefix(f"{root}/") for path in self.present)
        return digest_bytes("\0".join(there).encode(errors="surrogateescape")) if self.known else ""


def surroundings(discovered: Iterable[tuple[str, str]], source: Path, root: Path) -> Surroundings:
    """What could come to stand before a header that was found, and what ``__has_include`` asks for."""
    # Plain text: a C++ source reads hundreds of headers, and every build asks.
    inside = f"{root}/"
    outside = [path for path, _ in discovered if not path.startswith(inside)]
    own = [str(source), *(path for path, _ in discovered if path.startswith(inside))]
    beside = {path.rpartition("/")[0] for path in own}
    asked, known = _asked(own)
    wanted: dict[str, dict[str, set[str]]] = {}  # by folder and first part of a name, the names
    tails = _by_first_part({tail for path in outside for tail in _tails(path)})
    for folder in (*beside, _FIRST_IN_SYSTEM):
        wanted[folder] = tails
    if asked:
        both = _by_first_part({tail for names in tails.values() for tail in names} | asked)
        for folder in {ancestor for path in outside for ancestor in _ancestors(path)}:
            wanted[folder] = _by_first_part(asked)
        for folder in (*beside, _FIRST_IN_SYSTEM):
            wanted[folder] = both
    present: set[str] = set()
    absent: set[str] = set()
    for folder, by_first in wanted.items():
        there = _names(folder)
        for first, names in by_first.items():
            if first.strip(".") and first not in there:
                absent.add(f"{folder}/{first}")
                continue
            for name in names:
                path = name if name.startswith("/") else f"{folder}/{name}"
                (present if os.path.lexists(path) else absent).add(path)
    return Surroundings(present=frozenset(present), absent=frozenset(absent), known=known)


def _by_first_part(names: Iterable[str]) -> dict[str, set[str]]:
    by_first: dict[str, set[str]] = {}
    for name in names:
        by_first.setdefault(name.partition("/")[0], set()).add(name)
    return by_first


@cache
def _tails(path: str) -> tuple[str, ...]:
    """The names, of one part or more, by which a file could have been included."""
    parts = path.split("/")[1:]
    return tuple("/".join(parts[-n:]) for n in range(1, min(len(parts), _MAX_PARTS) + 1))


@cache
def _ancestors(path: str) -> tuple[str, ...]:
    return tuple(str(folder) for folder in Path(path).parents)


def _asked(own: Iterable[str]) -> tuple[set[str], bool]:
    """Names in ``__has_include`` and its like, and whether all of them could be read."""
    names: set[str] = set()
    known = True
    for path in own:
        try:
            text = Path(path).read_bytes()
        except OSError:
            return names, False
        if b"__has_" in text:
            names.update(os.fsdecode(name) for name in _ASKS.findall(text))
            known = known and not _ASKS_BY_MACRO.search(text)
    return names, known


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return set()
