"""Headers: whether a cached preprocessor run read what the preprocessor would read here and now.

Which files a C source includes is known only after preprocessing it, so the key of that step cannot
cover them. A cached run lists them instead, and serves only where all of them have the same content, and
where no new file shadows one of them: beside the file that includes it, in the folders that
``host: include:`` names, in the system's. A source that asks which files exist is always preprocessed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, PreprocessParams, Step, StepKind
from gpubuild.support.frozen import frozen, replace

# A quoted name of up to this many parts is looked for beside the including file: "sys/types.h" has two.
_MAX_PARTS = 6
# What these expand to depends on more than the content of files: on which files exist, on the time.
_ASKS = (b"__has_include", b"__has_embed")
_VOLATILE = (*_ASKS, b"__DATE__", b"__TIME__", b"__TIMESTAMP__")
# Compilers look here before they look in /usr/include.
_FIRST_IN_SYSTEM = "/usr/local/include"


def to_store(result: ActionResult, step: Step, root: Path) -> ActionResult | None:
    """``result`` with the project's own headers named relative to ``root``, or ``None``: do not store it.

    The latter when a file of the project asks which files exist or what time it is, or includes one
    from a folder above.
    """
    if any(".." in Path(p).parts for p, _ in result.discovered):
        return None  # `root/../a.h`: which file that is depends on links
    inside = _inside(step, root)
    own = [str(step.inputs[0].path), *(path for path, _ in result.discovered if path.startswith(inside))]
    if _contains(own, step, _VOLATILE):
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

    ``known`` is false where a source asks which files exist.
    """

    present: frozenset[str]
    absent: frozenset[str]
    known: bool

    def digest(self, root: Path) -> str:
        """A digest of what is there, the same in every checkout; empty when not known."""
        there = sorted(path.removeprefix(f"{root}/") for path in self.present)
        return digest_bytes("\0".join(there).encode(errors="surrogateescape")) if self.known else ""


def surroundings(discovered: Iterable[tuple[str, str]], step: Step, root: Path) -> Surroundings:
    """Paths at which a new file would shadow a header that was read."""
    # Plain text: a C++ source reads hundreds of headers, and every build asks.
    inside = _inside(step, root)
    named = _named(step, root)
    read = [path for path, _ in discovered]
    own = [str(step.inputs[0].path), *(path for path in read if path.startswith(inside))]
    # The project's own headers are found beside the file that includes them, before all others, where
    # no folders are named.
    by_first: dict[str, set[str]] = {}  # names by their first part
    for path in read:
        if named or not path.startswith(inside):
            for tail in _tails(path):
                by_first.setdefault(tail.partition("/")[0], set()).add(tail)
    present: set[str] = set()
    absent: set[str] = set()
    for folder in {*(path.rpartition("/")[0] for path in own), *named, _FIRST_IN_SYSTEM}:
        there = _names(folder)
        for part, names in by_first.items():
            if part.strip(".") and part not in there:
                absent.add(f"{folder}/{part}")
                continue
            for path in (f"{folder}/{name}" for name in names):
                (present if os.path.lexists(path) else absent).add(path)
    known = not _contains(own, step, _ASKS)
    return Surroundings(present=frozenset(present), absent=frozenset(absent), known=known)


def _contains(own: Iterable[str], step: Step, words: tuple[bytes, ...]) -> bool:
    """Whether a macro of the project file or one of the files has one of the words, or cannot be read."""
    macros = step.params.define if isinstance(step.params, PreprocessParams) else ()
    try:
        texts = ("\n".join(macros).encode(), *(Path(path).read_bytes() for path in own))
    except OSError:
        return True
    return any(word in text for text in texts for word in words)


def _named(step: Step, root: Path) -> tuple[str, ...]:
    """The folders of ``host: include:``, as names of headers in them begin."""
    include = step.params.include if isinstance(step.params, PreprocessParams) else ()
    return tuple(str(root / name) for name in include)


def _inside(step: Step, root: Path) -> tuple[str, ...]:
    """How names of the user's own files begin."""
    return tuple(f"{folder}/" for folder in (root, *_named(step, root)))


@cache
def _tails(path: str) -> tuple[str, ...]:
    """The names, of one part or more, by which a file could have been included."""
    parts = path.split("/")[1:]
    return tuple("/".join(parts[-n:]) for n in range(1, min(len(parts), _MAX_PARTS) + 1))


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return set()
