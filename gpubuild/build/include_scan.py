"""Headers: whether a cached preprocessor run read what the preprocessor would read here and now.

Which files a C source includes is known only after preprocessing it, so the key of that step cannot
cover them. A cached run lists them instead, and serves only where all of them have the same
content, and where no file has come to stand before one of them on the way that an ``#include`` is
looked up: beside the file that has it, in the folders that ``host: include:`` names, in the system's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, PreprocessParams, Step, StepKind
from gpubuild.support.frozen import frozen, replace

# A quoted name of up to this many parts is looked for beside the including file: "sys/types.h" has two.
_MAX_PARTS = 6
# What these expand to depends on more than the content of files.
_VOLATILE = (b"__has_include", b"__has_embed", b"__DATE__", b"__TIME__", b"__TIMESTAMP__")
_ASKS = rb'__has_(?:include|include_next|embed)\s*\(\s*["<]([^">\n]+)[">]'
_ASKS_WHETHER_IT_CAN = rb"(?:#\s*(?:el)?ifn?def\s|\bdefined\b)[\s(]*__has_(?:include|include_next|embed)\b"
_ASKS_BY_MACRO = rb"__has_(?:include|include_next|embed)\b"
# Compilers look here before they look in /usr/include.
_FIRST_IN_SYSTEM = "/usr/local/include"


def to_store(result: ActionResult, step: Step, root: Path) -> ActionResult | None:
    """``result`` with the project's own headers named relative to ``root``, or ``None``: do not store it.

    The latter when a file of the project asks what is there or what time it is, or
    includes one from a folder above.
    """
    if any(".." in Path(p).parts for p, _ in result.discovered):
        return None  # `root/../a.h`: which file that is depends on links
    inside = _inside(step, root)
    own = [step.inputs[0].path, *(Path(p) for p, _ in result.discovered if p.startswith(inside))]
    macros = "\n".join(step.params.define if isinstance(step.params, PreprocessParams) else ()).encode()
    try:
        if any(word in text for text in (macros, *(p.read_bytes() for p in own)) for word in _VOLATILE):
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
    stored: ActionResult, step: Step, root: Path, digest_of: Callable[[Path], Digest | None]
) -> ActionResult | None:
    """``stored`` with absolute names, if every header is as it was then; otherwise ``None``."""
    found = tuple((str(root / path), digest) for path, digest in stored.discovered)
    stored = replace(stored, discovered=found)
    if not speaks_of(stored, step):
        return None
    if any(digest_of(Path(path)) != digest for path, digest in found):
        return None
    if step.kind is StepKind.PREPROCESS:
        read = {str(step.inputs[0].path), *(path for path, _ in found)}
        if surroundings(found, step, root).present - read:
            return None  # which may have come since
    return stored


def speaks_of(result: ActionResult, step: Step) -> bool:
    """Whether what ``result`` says is about this step's own source.

    The preprocessed text that a C compiler's result is kept under may be that of another file, too.
    """
    if step.kind is not StepKind.CC or not (result.warnings and result.discovered):
        return True
    sources = {str(item.path) for item in step.inputs if item.name == "source"}
    return any(path in sources for path, _ in result.discovered)


def around(step: Step, result: ActionResult, root: Path) -> str:
    """The digest of a preprocessor run's surroundings; empty when not known, and for other steps."""
    if step.kind is not StepKind.PREPROCESS:
        return ""
    return surroundings(result.discovered, step, root).digest(root)


@frozen
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


def surroundings(discovered: Iterable[tuple[str, str]], step: Step, root: Path) -> Surroundings:
    """What could come to stand before a header that was found, and what ``__has_include`` asks for."""
    # Plain text: a C++ source reads hundreds of headers, and every build asks.
    inside = _inside(step, root)
    source = str(step.inputs[0].path)
    read = [path for path, _ in discovered]
    own = [source, *(path for path in read if path.startswith(inside))]
    outside = [path for path in read if not path.startswith(inside)]
    named = _named(step, root)
    first = {*(path.rpartition("/")[0] for path in own), *named, _FIRST_IN_SYSTEM}
    asked, known = _asked(own)
    if isinstance(step.params, PreprocessParams):
        known = known and not any("__has_" in macro for macro in step.params.define)
    wanted: dict[str, dict[str, set[str]]] = {}  # by folder and first part of a name, the names
    # The project's own headers are found beside the file that includes them, before all others, where
    # no folders are named.
    tails = {tail for path in (read if named else outside) for tail in _tails(path)}
    by_first = _by_first_part(tails)
    for folder in first:
        wanted[folder] = by_first
    if asked:
        both = _by_first_part(tails | asked)
        for folder in {ancestor for path in outside for ancestor in _ancestors(path)}:
            wanted[folder] = _by_first_part(asked)
        for folder in first:
            wanted[folder] = both
    present: set[str] = set()
    absent: set[str] = set()
    for folder, by_first in wanted.items():
        there = _names(folder)
        for part, names in by_first.items():
            if part.strip(".") and part not in there:
                absent.add(f"{folder}/{part}")
                continue
            for name in names:
                path = name if name.startswith("/") else f"{folder}/{name}"
                (present if os.path.lexists(path) else absent).add(path)
    return Surroundings(present=frozenset(present), absent=frozenset(absent), known=known)


def _named(step: Step, root: Path) -> tuple[str, ...]:
    """The folders of ``host: include:``, as names of headers in them begin."""
    include = step.params.include if isinstance(step.params, PreprocessParams) else ()
    return tuple(str(root / name) for name in include)


def _inside(step: Step, root: Path) -> tuple[str, ...]:
    """How names of the user's own files begin."""
    return tuple(f"{folder}/" for folder in (root, *_named(step, root)))


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
            names.update(os.fsdecode(name) for name in re.findall(_ASKS, text))
            # Whatever else has the word may be a macro that asks under another name.
            known = known and not re.search(
                _ASKS_BY_MACRO, re.sub(_ASKS, b"", re.sub(_ASKS_WHETHER_IT_CAN, b"", text))
            )
    return names, known


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return set()
