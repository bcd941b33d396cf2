"""Distribution: a package installed by pip, located and identified without importing it."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from gpubuild.model.digest import digest_bytes, encode
from gpubuild.toolchain.memo import Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """An installed package: its version, the folder it was installed into and its content."""

    name: str
    version: str
    root: Path
    fingerprint: str


def find_distribution(
    name: str, memo: Memo, *, package: str, many_files: bool = False
) -> Distribution | None:
    """Look up ``name``; ``None`` when it is not installed or its folder ``package`` is gone.

    The fingerprint covers the content of every file of the package: the digests that the
    installer recorded and checked, and our own for a file that has no record or another size than
    recorded. What differs between two installations of the same package (compiled Python, the
    installer's own notes, scripts) is left out, so that machines can share a cache.

    With ``many_files`` (ziglang has 20,000) the files are looked at again only when the
    installer's record changed; the caller digests the program itself.
    """
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    root = Path(str(found.locate_file("")))
    if not (root / package).is_dir():
        return None
    record = Path(str(found.locate_file(f"{_normal(name)}-{found.version}.dist-info/RECORD")))
    memo.seen.update((record, record.with_name("METADATA"), root / package))
    if many_files and record.is_file():
        known = memo.fact("distribution", record)
        if isinstance(known, str):
            return Distribution(name=name, version=found.version, root=root, fingerprint=known)
    fingerprint = _fingerprint(name, found, root, package, memo)
    if many_files and record.is_file():
        memo.learn("distribution", record, fingerprint)
    return Distribution(name=name, version=found.version, root=root, fingerprint=fingerprint)


def _fingerprint(name: str, found: metadata.Distribution, root: Path, package: str, memo: Memo) -> str:
    entries: list[tuple[str, str]] = []
    for file in sorted(found.files or (), key=str):
        if _varies(file):
            continue
        path = root / file
        memo.seen.add(path)
        try:
            size = path.stat().st_size
            if file.hash is not None and file.hash.mode == "sha256" and file.size == size:
                digest = file.hash.value
            else:
                digest = memo.digest(path)
        except OSError:
            digest = "missing"
        entries.append((file.as_posix(), digest))
    if not entries:  # no RECORD: an editable or distribution-made installation
        entries = [(path.relative_to(root).as_posix(), memo.digest(path)) for path in _walk(root / package)]
    return digest_bytes(encode((name, found.version, tuple(entries))))


def hidden_by(package: str, expected: Path) -> Path | None:
    """The folder that Python would import ``package`` from, or parts of it, instead of ``expected``.

    Its code would run under the identity of the installed package. ``mlir`` is a namespace package,
    so a folder of that name in the working directory is harmless unless it holds the same modules.
    """
    spec = importlib.util.find_spec(package)
    locations = [Path(p) for p in (spec.submodule_search_locations or ())] if spec else []
    own = {path.name for path in expected.iterdir()} - {"__pycache__"}
    for location in locations:
        if location.resolve() == expected.resolve():
            return None
        if any((location / name).exists() for name in own):
            return location
    return locations[0] if locations else expected


def tree_fingerprint(root: Path, paths: list[Path]) -> str:
    """One digest over the names (relative to ``root``) and contents of ``paths``, small files all."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(encode((path.relative_to(root).as_posix(), path.read_bytes())))
    return total.hexdigest()


def _normal(name: str) -> str:
    return name.replace("-", "_")


def _varies(file: PurePosixPath) -> bool:
    top = file.parts[0]
    return "__pycache__" in file.parts or top.endswith(".dist-info") or top in ("..", "/")


def _walk(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
