"""Packages installed by pip, located and identified without importing them."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from gpubuild.model.digest import digest_bytes, encode
from gpubuild.support.frozen import frozen
from gpubuild.toolchain.memo import Memo

# In an installation that was unpacked or copied, files have change times in any order.
_UNPACKING_NS = 600 * 10**9


@frozen
class Distribution:
    """An installed package: its version, the folder it was installed into and its content."""

    name: str
    version: str
    root: Path
    fingerprint: str


def find_distribution(
    name: str, memo: Memo, *, package: str, part: str = "", many_files: bool = False
) -> Distribution | None:
    """Look up ``name``; ``None`` when it is not installed or its folder ``package`` is gone.

    The fingerprint covers the content of every file of the package: the digests that the installer
    recorded and checked, and our own for a file without record, with another size than recorded, or
    changed after the record was written, which installers do last. Files that differ between two
    installations of one package (compiled Python, the installer's notes, scripts) are left out, so
    that machines can share a cache.

    ``part``, such as ``llvm/lib/``, limits it to files whose names begin with it. With
    ``many_files`` (ziglang has 20,000) the files are checked again only when the installer's record
    changed; the caller digests the program itself.
    """
    found = _find_installed(name)
    if found is None or not (found.root / package).is_dir():
        return None
    evidence = (found.record, found.record.with_name("METADATA"), found.root / package)
    memo.seen.update(map(str, evidence))
    if not (many_files and found.record.is_file()):
        fingerprint = _fingerprint(name, found, package, memo, memo.seen, part)
        return Distribution(name=name, version=found.version, root=found.root, fingerprint=fingerprint)
    known = memo.fact("distribution", found.record)
    if not isinstance(known, str):
        # Files that are not checked again are no evidence, so they are not in `seen`.
        known = _fingerprint(name, found, package, Memo(None), None)
        memo.learn("distribution", found.record, known)
    return Distribution(name=name, version=found.version, root=found.root, fingerprint=known)


@frozen
class _Installed:
    """The location of a distribution. ``record`` lists its files, if it exists."""

    version: str
    root: Path
    record: Path


def _find_installed(name: str) -> _Installed | None:
    """Return the first distribution called ``name`` on ``sys.path``.

    The name of its folder ``NAME-VERSION.dist-info`` is enough (PyPA's specification of recorded
    installed projects). importlib.metadata, whose import takes as long as 60 hits in the cache, is
    used for other forms of installation only.
    """
    wanted = _normal(name)
    for folder in sys.path:
        root = Path(folder)
        with suppress(OSError), os.scandir(root) as entries:
            for entry in sorted(e.name for e in entries if e.name.endswith(".dist-info")):
                found, dash, version = entry.removesuffix(".dist-info").partition("-")
                if dash and _normal(found) == wanted:
                    return _Installed(version=version, root=root, record=root / entry / "RECORD")
    from importlib import metadata

    try:
        other = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    root = Path(str(other.locate_file("")))
    record = root / f"{wanted}-{other.version}.dist-info" / "RECORD"
    return _Installed(version=other.version, root=root, record=record)


def _fingerprint(
    name: str, found: _Installed, package: str, memo: Memo, seen: set[str] | None, part: str = ""
) -> str:
    # Plain text instead of Path objects: ziglang's 20,000 files take 0.1 s instead of 0.5.
    entries: list[str] = []
    root = found.root
    folder = f"{root}{os.sep}"
    written_ns, changed_ns = _times(found.record)
    for file, recorded, size in sorted(_recorded(found.record)):
        if not file.startswith(part):
            continue
        path = folder + file
        if seen is not None:
            seen.add(path)
        try:
            stat = os.stat(path)  # noqa: PTH116
            intact = (
                recorded
                and size == stat.st_size
                and stat.st_mtime_ns <= written_ns
                and stat.st_ctime_ns <= changed_ns + _UNPACKING_NS
            )
            digest = recorded if intact else _as_recorded(memo.digest(Path(path)))
        except OSError:
            digest = "missing"
        entries += (file, digest)
    if not entries:  # no RECORD: an editable or distribution-made installation
        for file_path in _walk(root / package):
            entries += (file_path.relative_to(root).as_posix(), memo.digest(file_path))
    # No file name has a NUL, so that names and digests cannot run together.
    return digest_bytes(encode((name, found.version, "\0".join(entries))))


def _times(record: Path) -> tuple[int, int]:
    """Return modification and change time in ns; zeros when there is no such file."""
    try:
        stat = record.stat()
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_ctime_ns


def _as_recorded(digest: str) -> str:
    """Return a digest in the form of installers, so that checked and unchecked files compare equal."""
    from base64 import urlsafe_b64encode  # few files were changed since they were installed

    return urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")


def _recorded(record: Path) -> Iterator[tuple[str, str, int]]:
    """Yield files of the installer's record: path below the root, SHA-256 as recorded or "", size."""
    try:
        text = record.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return  # none: see _fingerprint
    for row in csv.reader(text.splitlines()):
        if not row or _varies(row[0]):
            continue
        algorithm, _, digest = row[1].partition("=") if len(row) > 1 else ("", "", "")
        size = int(row[2]) if len(row) > 2 and row[2].isdigit() else -1
        yield row[0], digest if algorithm == "sha256" else "", size


def hidden_by(package: str, expected: Path) -> Path | None:
    """Return the folder that Python would import ``package`` or parts of it from instead of ``expected``.

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


def tree_fingerprint(root: Path, files: Iterable[str]) -> str:
    """Return a digest of the names (relative to ``root``) and contents of small ``files``."""
    total = hashlib.sha256()
    # Every build begins with this: plain text instead of Path objects halves its time.
    for file in sorted(files):
        with open(f"{root}/{file}", "rb") as stream:  # noqa: PTH123
            total.update(encode((file, stream.read())))
    return total.hexdigest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _varies(file: str) -> bool:
    top, *rest = file.split("/")
    return "__pycache__" in rest or top.endswith(".dist-info") or top in ("", "..", "__pycache__")


def _walk(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
