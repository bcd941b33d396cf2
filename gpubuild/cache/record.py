"""Records: the result of an action key as stored bytes, and their strict reader.

A record is a SHA-256 over key and body, a newline, and one JSON object. SQLite keeps no checksums:
without ours a flipped bit in a database page would be served as a name or a warning. The checksum
covers the key, so a damaged index cannot serve the record of another step.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TypeVar, cast

from gpubuild.model.digest import Digest, digest_bytes, is_digest
from gpubuild.model.step import ActionResult, is_plain_name
from gpubuild.support.plain_data import plain, typed

SCHEMA = "gpubuild.record/1"
MAX_RECORD_BYTES = 4 << 20
MAX_BLOBS = 4096
MAX_BLOB_BYTES = 1 << 40
MAX_NAME = 255
MAX_TEXT = 1 << 16
MAX_SECONDS = 1 << 32
T = TypeVar("T")


class RecordError(ValueError):
    """The bytes are not a record of this key."""


def encode_record(key: Digest, result: ActionResult) -> bytes:
    """Return the bytes to store. Raises ``RecordError`` for a result that the reader would refuse."""
    document = {"schema": SCHEMA, **cast(dict[str, object], plain(result))}
    body = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
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
    document = read_json(body)
    if not isinstance(document, dict) or document.pop("schema", None) != SCHEMA:
        raise RecordError(f"not of schema {SCHEMA}")
    result = read_typed(ActionResult, document)
    if max(len(result.blobs), len(result.discovered), len(result.warnings)) > MAX_BLOBS:
        raise RecordError(f"more than {MAX_BLOBS} outputs, files or warnings")
    if len({blob.name for blob in result.blobs}) != len(result.blobs):
        raise RecordError("two outputs of one name")
    for blob in result.blobs:
        if not is_plain_name(blob.name) or len(blob.name) > MAX_NAME:
            raise RecordError(f"not a plain output name: {blob.name[:80]!r}")
        check_blob(blob.digest, blob.size_bytes)
    for path, digest in result.discovered:
        if not path or "\0" in path or len(path) > MAX_TEXT or ".." in PurePosixPath(path).parts:
            raise RecordError("expected the path of a file")
        check_blob(digest)
    if any(len(text) > MAX_TEXT for text in result.warnings):
        raise RecordError("a warning is too long")
    if not 0 <= result.seconds <= MAX_SECONDS:
        raise RecordError("seconds is not a duration")
    return result


def _checksum(key: Digest, body: bytes) -> Digest:
    return digest_bytes(key.encode() + b"\n" + body)


def check_blob(digest: object, size_bytes: int = 0) -> None:
    """Raise ``RecordError`` for what is no digest or no size of a blob in bytes."""
    if not is_digest(digest):
        raise RecordError("expected a digest")
    if not 0 <= size_bytes <= MAX_BLOB_BYTES:
        raise RecordError(f"not a size: {str(size_bytes)[:80]}")


def read_json(data: bytes) -> object:
    """Return the value of a JSON text. Raises ``RecordError`` for other bytes."""
    try:
        return cast(object, json.loads(data))
    except (ValueError, RecursionError) as error:
        raise RecordError("not JSON") from error


def read_typed(kind: type[T], value: object) -> T:
    """Return the plain ``value`` as ``kind``. Raises ``RecordError`` where it is of another type."""
    try:
        return cast(T, typed(kind, value))
    except ValueError as error:
        raise RecordError(str(error)) from error
