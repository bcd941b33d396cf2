"""Archives: results in one file, for a CI service to keep and a fresh machine to import.

A tar file of a manifest and the blobs, sorted, without times or owners: equal content gives equal
bytes. An archive may come from anywhere: the reader accepts nothing but plain files with the names below.

    manifest.json   records, with their checksums
    cas/<sha256>    the blobs
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self, cast

from gpubuild.cache.local.blobs import DamagedBlobError, read_verified
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.record import decode_record, encode_record
from gpubuild.errors import UsageError
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.files import Replacement
from gpubuild.support.frozen import frozen
from gpubuild.support.text import counted

SCHEMA = "gpubuild.archive/1"
DEFAULT_LIMIT_BYTES = 20 << 30
MAX_MANIFEST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 20
_MANIFEST = "manifest.json"
_COMPRESSION_LEVEL = 1


@frozen
class Exported:
    """The content of an archive. ``missing`` results were wanted but not in the cache."""

    records: int
    blobs: int
    size_bytes: int
    missing: int


@frozen
class Imported:
    """What was imported. ``problems`` list what was not, and why."""

    records: int
    blobs: int
    size_bytes: int
    problems: tuple[str, ...]


class ArchiveError(Exception):
    """The bytes are not an archive of ours, or end early."""


def export_archive(store: DiskStore, file: Path, keys: Collection[Digest] | None) -> Exported:
    """Write the results of ``keys`` (``None``: all) to ``file``, which appears when it is complete.

    Blobs are checked while they are read. Raises ``UsageError`` when ``file`` cannot be written.
    """
    records = store.records()
    wanted = {k: r for k, r in sorted(records.items()) if keys is None or k in keys}
    wanted = {k: r for k, r in wanted.items() if all(store.has(blob) for blob in r.blobs)}
    blobs = {b.digest: b for r in wanted.values() for b in r.blobs}
    manifest = _encode_manifest(wanted)
    compressed = file.suffix in (".gz", ".tgz")
    try:
        with Replacement(file) as temporary, _writing(Path(temporary), compressed=compressed) as out:
            out.write(_header(_MANIFEST, len(manifest)) + manifest + _padding(len(manifest)))
            for digest in sorted(blobs):
                out.write(_header(f"cas/{digest}", blobs[digest].size_bytes))
                for chunk in read_verified(blobs[digest], store.blobs.path(digest)):
                    out.write(chunk)
                out.write(_padding(blobs[digest].size_bytes))
            out.write(bytes(2 * tarfile.BLOCKSIZE))
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror or error}",
            hint="free some space or choose another folder"
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else "name a file in a folder that exists and that you can write",
        ) from error
    except DamagedBlobError as error:
        raise UsageError(
            f"the cache is damaged: {error}", hint="run `gpubuild cache verify`, build, and export again"
        ) from error
    return Exported(
        records=len(wanted),
        blobs=len(blobs),
        size_bytes=sum(blob.size_bytes for blob in blobs.values()),
        missing=0 if keys is None else len(set(keys) - set(wanted)),
    )


def import_archive(store: DiskStore, file: Path, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> Imported:
    """Add the results in ``file`` to ``store``, if they are complete and correct.

    Of a damaged archive the good results are imported, and a problem is listed. Raises ``UsageError``
    when the file cannot be read or the cache cannot be written.
    """
    if not store.writable:
        raise UsageError(
            f"the cache {store.directory} cannot be written", hint="choose another with --cache-dir"
        )
    problems: list[str] = []
    records: dict[Digest, ActionResult] = {}
    stored_blobs: set[Digest] = set()
    taken_bytes = 0
    try:
        stream = _open(file)
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}", hint="`gpubuild cache export FILE` writes such a file"
        ) from error
    with stream:
        try:
            members = _members(stream)
            records = _read_manifest(*next(members, ("", 0, _nothing)), limit_bytes)
            blobs = {b.digest: b for r in records.values() for b in r.blobs}
            stored_blobs = {digest for digest, blob in blobs.items() if store.has(blob)}
            last = ""
            for name, size, read in members:
                blob = _wanted(name, size, blobs)
                if name <= last:
                    raise ArchiveError("its files are not in order")  # or one is repeated
                last = name
                if blob.digest in stored_blobs:
                    continue
                try:
                    store.receive(blob, iter(partial(read, _CHUNK_BYTES), b""))
                except DamagedBlobError:
                    problems.append(f"{name} is damaged")
                    continue
                stored_blobs.add(blob.digest)
                taken_bytes += size
            if blobs and last != f"cas/{max(blobs)}":  # tarfile takes a damaged header for the end
                raise ArchiveError("it ends early")
        except (ArchiveError, EOFError, gzip.BadGzipFile, tarfile.TarError) as error:
            problems.append(str(error) or "it ends early")
        except OSError as error:
            problems.append(error.strerror or str(error))
        except zlib.error:
            problems.append("its compressed bytes are damaged")
    whole = {k: r for k, r in records.items() if stored_blobs.issuperset(blob.digest for blob in r.blobs)}
    stored = sum(store.adopt(key, result) for key, result in whole.items())
    if len(whole) < len(records):
        problems.append(f"{counted(len(records) - len(whole), 'result')} left out: not complete")
    return Imported(records=stored, blobs=len(stored_blobs), size_bytes=taken_bytes, problems=tuple(problems))


# --- the manifest ---


def _encode_manifest(records: dict[Digest, ActionResult]) -> bytes:
    document = {
        "schema": SCHEMA,
        "records": {key: encode_record(key, result).decode() for key, result in records.items()},
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _read_manifest(
    name: str, size: int, read: Callable[[int], bytes], limit_bytes: int
) -> dict[Digest, ActionResult]:
    if name != _MANIFEST:
        raise ArchiveError("it was not written by `gpubuild cache export`")
    if size > MAX_MANIFEST_BYTES:
        raise ArchiveError("its manifest is too large")
    try:
        document = json.loads(read(size))
        if document["schema"] != SCHEMA:
            raise ArchiveError("it was written by another version of gpubuild")
        records = {
            Digest(key): decode_record(key, text.encode())
            for key, text in document["records"].items()
            if is_digest(key)
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArchiveError("its manifest is damaged") from error
    sizes = {blob.digest: blob.size_bytes for result in records.values() for blob in result.blobs}
    if sum(sizes.values()) > limit_bytes:
        raise ArchiveError(f"it holds {sum(sizes.values())} bytes, more than the limit of {limit_bytes}")
    return records


def _wanted(name: str, size: int, blobs: dict[Digest, Blob]) -> Blob:
    folder, _, digest = name.partition("/")
    blob = blobs.get(Digest(digest)) if folder == "cas" else None
    if blob is None or blob.size_bytes != size:
        raise ArchiveError(f"its manifest does not mention {name[:100]!r} of {size} bytes")
    return blob


# --- tar ---


def _header(name: str, size: int) -> bytes:
    header = tarfile.TarInfo(name)
    header.size = size
    return header.tobuf(tarfile.USTAR_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


class _PlainFile(tarfile.TarInfo):
    """A header of a plain file. Others are refused unread: links, devices, extensions of any size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        header = super().frombuf(buf, encoding, errors)
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise ArchiveError("a header in it is damaged, or it was not written by `gpubuild cache export`")
        return header


def _members(stream: BinaryIO) -> Iterator[tuple[str, int, Callable[[int], bytes]]]:
    """Yield the name and the size of each file, and a function that reads its content."""
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_PlainFile) as tar:
        for member in tar:
            content = tar.extractfile(member)
            yield member.name, member.size, content.read if content else _nothing


def _nothing(_: int) -> bytes:
    return b""


@contextmanager
def _writing(file: Path, *, compressed: bool) -> Iterator[BinaryIO]:
    with file.open("xb") as raw:
        if compressed:
            with gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, raw, mtime=0) as out:
                yield cast(BinaryIO, out)
        else:
            yield raw
        raw.flush()
        os.fsync(raw.fileno())


def _open(file: Path) -> BinaryIO:
    raw = file.open("rb")
    magic = raw.read(2)
    raw.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if magic == b"\x1f\x8b" else raw
