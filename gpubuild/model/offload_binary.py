"""Offload: LLVM's OffloadBinary container, version 1: device images with a string table each.

Layout (llvm/Object/OffloadBinary.h), all little-endian, every binary 8-byte aligned and padded:
header 32 bytes, entry 40 bytes, one 16-byte (key, value) pair of offsets per string, the strings,
the image. Binaries follow each other directly, as linkers make a section of them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from gpubuild.support.frozen import field, frozen

MAGIC = b"\x10\xff\x10\xad"
VERSION = 1
ALIGNMENT_BYTES = 8
SECTION = ".llvm.offloading"

_HEADER = struct.Struct("<4sIQQQ")  # magic, version, size, entry offset, entry size
_ENTRY = struct.Struct("<HHIQQQQ")  # image kind, offload kind, flags, strings at, count, image at, size
_PAIR = struct.Struct("<QQ")  # offset of the key, offset of the value


@frozen
class Image:
    """One device image. ``image_kind`` and ``offload_kind`` may be numbers LLVM adds later.

    Neither keys nor values of ``strings`` may contain NUL.
    """

    image_kind: int
    offload_kind: int
    strings: Mapping[str, str] = field(default_factory=dict)
    data: bytes
    flags: int = 0


def pack(images: Sequence[Image]) -> bytes:
    """Concatenate one binary per image, in order. Raises ``ValueError`` for a string with a NUL."""
    return b"".join(parts(images))


def parts(images: Sequence[Image]) -> list[bytes]:
    """Return the pieces of :func:`pack`, among them the data of the images without a copy."""
    return [part for image in images for part in _parts_of(image)]


def unpack(data: bytes) -> list[Image]:
    """Read a whole container back, in order; no bytes at all are no images.

    Zero bytes between binaries (a linker's alignment padding) are skipped. Raises ``ValueError``
    that names the offset when anything does not fit: no value read is trusted to lie in bounds.
    """
    images = []
    position = 0
    while position < len(data):
        if position % ALIGNMENT_BYTES == 0 and data[position : position + 4] == MAGIC:
            image, size = _unpack_one(data, position)
            images.append(image)
            position += size
        elif data[position] == 0 and images:
            position += 1
        else:
            raise ValueError(f"offset {position}: expected the magic number of an offload binary")
    return images


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _parts_of(image: Image) -> tuple[bytes, bytes, bytes]:
    pairs_at = _HEADER.size + _ENTRY.size
    table_at = pairs_at + _PAIR.size * len(image.strings)
    table = bytearray()
    offsets: dict[str, int] = {}
    for text in (t for pair in image.strings.items() for t in pair):
        if "\0" in text:
            raise ValueError(f"a string of an offload binary cannot contain NUL: {text!r}")
        if text not in offsets:
            offsets[text] = table_at + len(table)
            table += text.encode() + b"\0"
    image_at = _aligned(table_at + len(table))
    size = _aligned(image_at + len(image.data))
    out = bytearray(image_at)
    _HEADER.pack_into(out, 0, MAGIC, VERSION, size, _HEADER.size, _ENTRY.size)
    _ENTRY.pack_into(
        out,
        _HEADER.size,
        image.image_kind,
        image.offload_kind,
        image.flags,
        pairs_at,
        len(image.strings),
        image_at,
        len(image.data),
    )
    for number, (key, value) in enumerate(image.strings.items()):
        _PAIR.pack_into(out, pairs_at + number * _PAIR.size, offsets[key], offsets[value])
    out[table_at : table_at + len(table)] = table
    return bytes(out), image.data, bytes(size - image_at - len(image.data))


def _unpack_one(data: bytes, start: int) -> tuple[Image, int]:
    _within(start, 0, _HEADER.size, len(data) - start, "header")
    _, version, size, entry_at, entry_size = _HEADER.unpack_from(data, start)
    if version != VERSION:
        raise ValueError(f"offset {start}: offload binary version {version}, only {VERSION} is known")
    if size < _HEADER.size or size % ALIGNMENT_BYTES or size > len(data) - start:
        raise ValueError(f"offset {start}: size {size} does not fit {len(data) - start} bytes")
    if entry_size < _ENTRY.size:
        raise ValueError(f"offset {start}: an entry of {entry_size} bytes, expected {_ENTRY.size}")
    _within(start, entry_at, entry_size, size, "entry")
    image_kind, offload_kind, flags, pairs_at, count, image_at, image_size = _ENTRY.unpack_from(
        data, start + entry_at
    )
    _within(start, pairs_at, count * _PAIR.size, size, "string table")
    _within(start, image_at, image_size, size, "image")
    strings: dict[str, str] = {}
    for number in range(count):
        key_at, value_at = _PAIR.unpack_from(data, start + pairs_at + number * _PAIR.size)
        key = _string(data, start, key_at, size)
        if key in strings:
            raise ValueError(f"offset {start}: string {key!r} occurs twice")
        strings[key] = _string(data, start, value_at, size)
    begin = start + image_at
    image = Image(
        image_kind=image_kind,
        offload_kind=offload_kind,
        strings=strings,
        data=data[begin : begin + image_size],
        flags=flags,
    )
    return image, size


def _within(start: int, at: int, length: int, size: int, what: str) -> None:
    if at > size or length > size - at:
        raise ValueError(f"offset {start}: {what} at {at} of {length} bytes leaves the binary's {size} bytes")


def _string(data: bytes, start: int, at: int, size: int) -> str:
    end = data.find(b"\0", start + at, start + size) if at < size else -1
    if end < 0:
        raise ValueError(f"offset {start}: string at {at} does not end within {size} bytes")
    try:
        return data[start + at : end].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"offset {start}: string at {at} is not UTF-8") from error
