"""Remote records: our JSON in the ``ActionResult`` message that Bazel's clients store in ``/ac/``.

Only the fields that we need are read and written.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from gpubuild.cache.record import (
    MAX_RECORD_BYTES,
    RecordError,
    check_blob,
    decode_record,
    encode_record,
    read_json,
    read_typed,
)
from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult
from gpubuild.support.frozen import frozen
from gpubuild.support.plain_data import plain

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_STDOUT_RAW = 5
_MAX_SHIFT = 63


def encode_bazel_result(outputs: Iterable[tuple[str, Digest, int]], text: bytes) -> bytes:
    """Return the message. ``outputs`` are names, digests and sizes in bytes of blobs in ``/cas/``."""
    files = b"".join(
        _bytes(2, _bytes(1, name.encode()) + _bytes(2, _bytes(1, digest.encode()) + _number(2, size_bytes)))
        for name, digest, size_bytes in outputs
    )
    # Without a worker's name, servers add the address of the sender.
    return files + _bytes(_STDOUT_RAW, text) + _bytes(9, _bytes(1, b"gpubuild"))


def decode_bazel_result(data: bytes) -> bytes:
    """Return our text in a message; ignore its other fields. Raises ``RecordError`` if there is none."""
    texts = [value for number, value in _fields(data) if number == _STDOUT_RAW and value is not None]
    if len(texts) != 1:
        raise RecordError("not a record of ours")
    return texts[0]


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*data, value))


def _fields(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Yield the numbers of the fields, with the values of those that are bytes."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        kind, size = tag & 7, 0
        if kind == _VARINT:
            _, at = _read_varint(data, at)
        elif kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in {_EIGHT_BYTES, _FOUR_BYTES}:
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise RecordError("not a protocol buffer")
        end = at + size
        if end > len(data):
            raise RecordError("it ends early")
        yield tag >> 3, data[at:end] if kind == _BYTES else None
        at = end


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, _MAX_SHIFT + 1, 7):
        if at >= len(data):
            raise RecordError("it ends early")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise RecordError("not a protocol buffer")


SCHEMA = "gpubuild.remote/2"
MAX_REMOTE_RECORD_BYTES = 4 * MAX_RECORD_BYTES
_CHUNK_BYTES = 1 << 18


class Encoding(StrEnum):
    """How a blob's bytes are stored."""

    IDENTITY = "identity"
    ZLIB = "zlib"


@frozen
class Stored:
    """The stored form of a blob: its digest, size and encoding."""

    digest: Digest
    size_bytes: int
    encoding: Encoding


@frozen
class RemoteRecord:
    """A result, and the stored form of each of its blobs."""

    result: ActionResult
    stored: Mapping[Digest, Stored]


@frozen
class _Document:
    """What ``/ac/<key>`` has of ours: a record, and how its blobs are stored."""

    schema: str
    record: str
    stored: dict[Digest, Stored]


def encode_remote(key: Digest, record: RemoteRecord) -> bytes:
    """Return the body of ``/ac/<key>``. Raises ``RecordError`` for what the reader would refuse."""
    document = _Document(
        schema=SCHEMA, record=encode_record(key, record.result).decode(), stored=dict(record.stored)
    )
    text = json.dumps(plain(document), separators=(",", ":"), sort_keys=True).encode()
    # A server looks for blobs by the digest of their stored form.
    outputs = [
        (blob.name, stored.digest, stored.size_bytes)
        for blob in record.result.blobs
        if (stored := record.stored.get(blob.digest))
    ]
    data = encode_bazel_result(outputs, text)
    decode_remote(key, data)
    return data


def decode_remote(key: Digest, data: bytes) -> RemoteRecord:
    """Read what a server sent. Raises ``RecordError`` for anything ``encode_remote`` did not write."""
    if len(data) > MAX_REMOTE_RECORD_BYTES:
        raise RecordError("too long")
    document = read_typed(_Document, read_json(decode_bazel_result(data)))
    if document.schema != SCHEMA:
        raise RecordError(f"not of schema {SCHEMA}")
    try:
        result = decode_record(key, document.record.encode())
    except UnicodeEncodeError as error:
        raise RecordError("not text") from error
    if result.discovered:
        raise RecordError("it names files of another machine")
    stored = document.stored
    for where in stored.values():
        check_blob(where.digest, where.size_bytes)
    if stored.keys() != {blob.digest for blob in result.blobs}:
        raise RecordError("it does not say how its outputs are stored")
    for blob in result.blobs:
        where = stored[blob.digest]
        if where.encoding is Encoding.IDENTITY and (where.digest, where.size_bytes) != (
            blob.digest,
            blob.size_bytes,
        ):
            raise RecordError("an output is stored under a wrong name")
    return RemoteRecord(result=result, stored=stored)


def decompress(chunks: Iterable[bytes], limit_bytes: int) -> Iterator[bytes]:
    """Yield the content of a zlib stream, little more than ``limit_bytes`` of it at most.

    Raises ``RecordError`` for a malformed stream. The receiver checks size and digest.
    """
    stream, sent = zlib.decompressobj(), 0
    for chunk in chunks:
        rest = chunk
        while rest and not stream.eof:
            try:
                data = stream.decompress(rest, _CHUNK_BYTES)
            except zlib.error as error:
                raise RecordError("its compressed bytes are damaged") from error
            rest = stream.unconsumed_tail
            sent += len(data)
            if data:
                yield data
            if sent > limit_bytes:
                return
        if stream.eof:
            return
