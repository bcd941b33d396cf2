"""Whether a cached preprocessor run read the files that the preprocessor would read now.

The files that a C source includes are known only after preprocessing, so the key of that step cannot
cover them. A cached run lists them instead. It is valid where all of them have the same content and
no new file shadows one of them: beside the including file, in the folders of ``host: include:``, in
the system's folders. A source that asks which files exist is always preprocessed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, PreprocessParams, Step, StepKind
from gpubuild.support.frozen import frozen, replace

# Quoted names of at most so many parts are searched beside the including file; "sys/types.h" has two.
_MAX_PARTS = 6
# Their expansions depend on more than the content of files: on which files exist, on the time.
_ASKS = (b"__has_include", b"__has_embed")
_VOLATILE = (*_ASKS, b"__DATE__", b"__TIME__", b"__TIMESTAMP__")
# Compilers search this folder before /usr/include.
_FIRST_IN_SYSTEM = "/usr/local/include"


def to_store(result: ActionResult, step: Step, root: Path) -> ActionResult | None:
    """Return ``result`` with the project's headers relative to ``root``, or ``None``: do not store it.

    It is not stored when a file of the project asks which files exist or what time it is, or
    includes one through a path with ``..``.
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
    """Return ``stored`` with absolute names if every header is unchanged, else ``None``."""
    found = tuple((str(root / path), digest) for path, digest in stored.discovered)
    stored = replace(stored, discovered=found)
    if not concerns(stored, step):
        return None
    if any(digest_of(Path(path)) != digest for path, digest in found):
        return None
    if step.kind is StepKind.PREPROCESS:
        read = {str(step.inputs[0].path), *(path for path, _ in found)}
        if surroundings(found, step, root).present - read:
            return None  # a header that may be new
    return stored


def concerns(result: ActionResult, step: Step) -> bool:
    """Whether the warnings in ``result`` are about this step's source.

    A C compiler's result is stored under the preprocessed text, which may be that of another file.
    """
    if step.kind is not StepKind.CC or not (result.warnings and result.discovered):
        return True
    sources = {str(item.path) for item in step.inputs if item.name == "source"}
    return any(path in sources for path, _ in result.discovered)


def surroundings_digest(step: Step, result: ActionResult, root: Path) -> str:
    """Return the digest of a preprocessor run's surroundings; empty if unknown, and for other steps."""
    if step.kind is not StepKind.PREPROCESS:
        return ""
    return surroundings(result.discovered, step, root).digest(root)


@frozen
class Surroundings:
    """Paths whose creation or deletion could change what a preprocessor run reads.

    ``known`` is false for a source that asks which files exist.
    """

    present: frozenset[str]
    absent: frozenset[str]
    known: bool

    def digest(self, root: Path) -> str:
        """Return a digest of the present paths, equal in every checkout; empty if unknown."""
        present = sorted(path.removeprefix(f"{root}/") for path in self.present)
        return digest_bytes("\0".join(present).encode(errors="surrogateescape")) if self.known else ""


def surroundings(discovered: Iterable[tuple[str, str]], step: Step, root: Path) -> Surroundings:
    """Return the paths at which a file would shadow a header that was read."""
    # Plain text: a C++ source reads hundreds of headers, and every build computes this.
    inside = _inside(step, root)
    named = _named(step, root)
    read = [path for path, _ in discovered]
    own = [str(step.inputs[0].path), *(path for path in read if path.startswith(inside))]
    # Without named folders, the project's own headers are found beside the including file, before others.
    by_first: dict[str, set[str]] = {}  # names by their first part
    for path in read:
        if named or not path.startswith(inside):
            for tail in _tails(path):
                by_first.setdefault(tail.partition("/")[0], set()).add(tail)
    present: set[str] = set()
    absent: set[str] = set()
    for folder in {*(path.rpartition("/")[0] for path in own), *named, _FIRST_IN_SYSTEM}:
        names_here = _names(folder)
        for part, names in by_first.items():
            if part.strip(".") and part not in names_here:
                absent.add(f"{folder}/{part}")
                continue
            for path in (f"{folder}/{name}" for name in names):
                (present if os.path.lexists(path) else absent).add(path)
    known = not _contains(own, step, _ASKS)
    return Surroundings(present=frozenset(present), absent=frozenset(absent), known=known)


def _contains(own: Iterable[str], step: Step, words: tuple[bytes, ...]) -> bool:
    """Whether a macro of the project file or one of the files contains a word, or cannot be read."""
    macros = step.params.define if isinstance(step.params, PreprocessParams) else ()
    try:
        texts = ("\n".join(macros).encode(), *(Path(path).read_bytes() for path in own))
    except OSError:
        return True
    return any(word in text for text in texts for word in words)


def _named(step: Step, root: Path) -> tuple[str, ...]:
    """Return the folders of ``host: include:`` as text."""
    include = step.params.include if isinstance(step.params, PreprocessParams) else ()
    return tuple(str(root / name) for name in include)


def _inside(step: Step, root: Path) -> tuple[str, ...]:
    """Return the beginnings of the paths of the user's own files."""
    return tuple(f"{folder}/" for folder in (root, *_named(step, root)))


@cache
def _tails(path: str) -> tuple[str, ...]:
    """Return the names by which a file could have been included."""
    parts = path.split("/")[1:]
    return tuple("/".join(parts[-n:]) for n in range(1, min(len(parts), _MAX_PARTS) + 1))


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return set()
