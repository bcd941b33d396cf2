"""Bazel result: the protocol buffer that Bazel's clients store in ``/ac/``, as far as we need it.

A server that knows the format (bazel-remote) refuses other bodies, keeps a result only as long as
all blobs it names, and counts a look-up as a use of them. Our own text travels in it as the
action's standard output. Such a server writes the message anew and adds fields: nothing but that
text is taken from an answer, and the text has its own checksum.

``build.bazel.remote.execution.v2`` numbers the fields: ActionResult {output_files 2, stdout_raw 5,
execution_metadata 9}, OutputFile {path 1, digest 2}, Digest {hash 1, size_bytes 2},
ExecutedActionMetadata {worker 1}.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpubuild.cache.record import RecordError
from gpubuild.model.digest import Digest

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_STDOUT_RAW = 5
_MAX_SHIFT = 63


def encode_bazel_result(outputs: Iterable[tuple[str, Digest, int]], text: bytes) -> bytes:
    """The message. ``outputs`` are names, digests and sizes in bytes of blobs in ``/cas/``."""
    files = b"".join(
        _bytes(2, _bytes(1, name.encode()) + _bytes(2, _bytes(1, digest.encode()) + _number(2, size_bytes)))
        for name, digest, size_bytes in outputs
    )
    # With a worker named, servers need not put in the address of the one who sent this.
    return files + _bytes(_STDOUT_RAW, text) + _bytes(9, _bytes(1, b"gpubuild"))


def decode_bazel_result(data: bytes) -> bytes:
    """The text in a message, whatever else is in it. Raises ``RecordError`` for anything else."""
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
    """Numbers of the fields, with the value of those that have bytes."""
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
