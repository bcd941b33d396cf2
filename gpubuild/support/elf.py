"""Layout of 64-bit little-endian ELF objects, for code that changes their bytes."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
NAME, KIND, FLAGS, OFFSET, SIZE, LINK = 0, 1, 2, 4, 5, 6  # fields of a section's header
SYMBOL_TABLE = 2  # kind of a section
DATA_SYMBOL = 1
RESERVED = 0xFF00  # section numbers from here on are special


def sections(data: bytes) -> tuple[list[int], list[list[int]], list[str]]:
    """Return offsets, fields and names of the section headers of an object."""
    header = HEADER.unpack_from(data)
    start, count, names = header[6], header[12], header[13]
    offsets = [start + number * SECTION.size for number in range(count)]
    found = [list(SECTION.unpack_from(data, offset)) for offset in offsets]
    return offsets, found, [text(data, found[names][OFFSET] + section[NAME]) for section in found]


def text(data: bytes | bytearray, at: int) -> str:
    """Return the string at an offset."""
    return data[at : data.index(0, at)].decode()
