"""Records: the result of an action key as stored bytes, and their strict reader.

A record is a SHA-256 over key and body, a newline, and one JSON object. SQLite keeps no checksums:
without ours a flipped bit in a database page would be served as a name or a warning. The checksum
covers the key, so a damaged index cannot serve the record of another step.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import cast

from gpubuild.model.digest import Digest, digest_bytes, is_digest
from gpubuild.model.step import ActionResult, Blob, is_plain_name

SCHEMA = "gpubuild.record/1"
MAX_RECORD_BYTES = 4 << 20
MAX_BLOBS = 4096
MAX_BLOB_BYTES = 1 << 40
MAX_TEXT = 1 << 16
MAX_SECONDS = 1 << 32


class RecordError(ValueError):
    """The bytes are not a record of this key."""


def encode_record(key: Digest, result: ActionResult) -> bytes:
    """Return the bytes to store. Raises ``RecordError`` for a result that the reader would refuse."""
    body = json.dumps(
        {
            "schema": SCHEMA,
            "blobs": [
                {
                    "name": blob.name,
                    "digest": blob.digest,
                    "size_bytes": blob.size_bytes,
                    "executable": blob.executable,
                }
                for blob in result.blobs
            ],
            "discovered": [[path, digest] for path, digest in result.discovered],
            "warnings": list(result.warnings),
            "seconds": result.seconds,
        },
        separators=(",", ":"),
        sort_keys=True,
    ).encode()
    data = _checksum(key, body).encode() + b"\n" + body
    decode_record(key, data)
    return data


def decode_record(key: Digest, data: bytes) -> ActionResult:
    """Read ``data`` back. Raises ``RecordError`` for anything that ``encode_record`` did not write."""
    if len(data) > MAX_RECORD_BYTES:
        raise RecordError(f"{len(data)} bytes long")
    checksum, newline, body = data.partition(b"\n")
    if not newline or checksum != _checksum(key, body).encode():
        raise RecordError("its checksum does not match")
    fields = _fields(read_json(body), {"schema", "blobs", "discovered", "warnings", "seconds"})
    if fields["schema"] != SCHEMA:
        raise RecordError(f"schema {fields['schema']!r}")
    blobs = tuple(_blob(item) for item in _list(fields["blobs"]))
    if len({blob.name for blob in blobs}) != len(blobs):
        raise RecordError("two outputs of one name")
    seconds = fields["seconds"]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise RecordError("seconds is not a number")
    if not 0 <= seconds <= MAX_SECONDS:
        raise RecordError("seconds is not a duration")
    return ActionResult(
        blobs=blobs,
        discovered=tuple(_discovered(item) for item in _list(fields["discovered"])),
        warnings=tuple(_text(item) for item in _list(fields["warnings"])),
        seconds=float(seconds),
    )


def _checksum(key: Digest, body: bytes) -> Digest:
    return digest_bytes(key.encode() + b"\n" + body)


def _fields(value: object, names: set[str]) -> dict[str, object]:
    if not isinstance(value, dict) or set(value) != names:
        raise RecordError(f"expected an object with {', '.join(sorted(names))}")
    return value


def _list(value: object) -> Iterable[object]:
    if not isinstance(value, list) or len(value) > MAX_BLOBS:
        raise RecordError(f"expected a list of at most {MAX_BLOBS}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise RecordError("expected a text")
    return value


def read_digest(value: object) -> Digest:
    """Return a digest. Raises ``RecordError`` for another value."""
    if not is_digest(value):
        raise RecordError("expected a digest")
    return Digest(str(value))


def read_size(value: object) -> int:
    """Return the size of a blob in bytes. Raises ``RecordError`` for another value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BLOB_BYTES:
        raise RecordError(f"not a size: {str(value)[:80]}")
    return value


def read_json(data: bytes) -> object:
    """Return the value of a JSON text. Raises ``RecordError`` for other bytes."""
    try:
        return cast(object, json.loads(data))
    except (ValueError, RecursionError) as error:
        raise RecordError("not JSON") from error


def _blob(value: object) -> Blob:
    fields = _fields(value, {"name", "digest", "size_bytes", "executable"})
    name, size, executable = _text(fields["name"]), read_size(fields["size_bytes"]), fields["executable"]
    if not is_plain_name(name) or len(name) > 255:
        raise RecordError(f"not a plain output name: {name[:80]!r}")
    if not isinstance(executable, bool):
        raise RecordError("executable is not a truth value")
    return Blob(name=name, digest=read_digest(fields["digest"]), size_bytes=size, executable=executable)


def _discovered(value: object) -> tuple[str, Digest]:
    if not isinstance(value, list) or len(value) != 2:
        raise RecordError("expected a path and its digest")
    path = _text(value[0])
    if not path or "\0" in path or ".." in PurePosixPath(path).parts:
        raise RecordError("expected the path of a file")
    return path, read_digest(value[1])
