"""Take the data of large resources out of MLIR bytecode.

MLIR would copy them and print them as hexadecimal text. Bytecode is a head and sections. One section has
the resources, one behind the other, and another one their sizes. Both are written again, with a mark in
place of each large resource; the rest is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

MAGIC = b"ML\xefR"
MARK_BYTES = 37
_RESOURCES, _SIZES = 5, 6  # numbers of sections
_ALIGNED = 0x80  # in the byte before a section
_PADDING = b"\xcb"
_BLOB = 0  # a kind of resource


def take_out(
    data: memoryview, least: int, store: Callable[[memoryview], str]
) -> tuple[bytes, dict[bytes, str]]:
    """Return bytecode with marks in place of resources of ``least`` bytes or more, and digests by mark.

    ``store`` gets the data of each and returns their digest. Raises ``ValueError`` for what is no bytecode.
    """
    reader = _Reader(data)
    if reader.bytes(len(MAGIC)) != MAGIC:
        raise ValueError("it does not begin like bytecode")
    reader.number()  # version
    while reader.byte():  # producer
        pass
    out = bytearray(data[: reader.at])
    sections = []
    while reader.at < len(data):
        kind, size = reader.byte(), reader.number()
        alignment = reader.number() if kind & _ALIGNED else 1
        reader.align(alignment)
        sections.append((kind & ~_ALIGNED, alignment, reader.bytes(size)))
    parts = {kind: content for kind, _, content in sections}
    marks: dict[bytes, str] = {}
    if _RESOURCES in parts and _SIZES in parts:
        parts[_SIZES], parts[_RESOURCES] = _without_data(
            _Reader(parts[_SIZES]), _Reader(parts[_RESOURCES]), least, store, marks
        )
    for kind, alignment, content in sections:
        if kind in (_RESOURCES, _SIZES):  # nothing in them is aligned any more
            out += bytes([kind]) + _number(len(parts[kind])) + parts[kind]
            continue
        out += bytes([kind | (_ALIGNED if alignment > 1 else 0)]) + _number(len(content))
        if alignment > 1:
            out += _number(alignment)
            out += _PADDING * (-len(out) % alignment)
        out += content
    return bytes(out), marks


def _without_data(
    sizes: _Reader,
    resources: _Reader,
    least: int,
    store: Callable[[memoryview], str],
    marks: dict[bytes, str],
) -> tuple[memoryview, memoryview]:
    """Return the two sections with marks, which are added to ``marks``."""
    new_sizes, new_resources = bytearray(), bytearray()

    def group() -> None:
        count = 0
        for count in (sizes.number(), sizes.number()):  # owner, number of resources
            new_sizes.extend(_number(count))
        for _ in range(count):
            key, size, kind = sizes.number(), sizes.number(), sizes.byte()
            content = resources.bytes(size) if kind != _BLOB else _blob(resources, size)
            if kind == _BLOB:
                if len(content) >= least:
                    digest = store(content)
                    mark = b"gpub" + bytes.fromhex(digest) + b"."
                    marks[mark] = digest
                    content = memoryview(mark)
                content = memoryview(_number(1) + _number(len(content)) + content)
            new_resources.extend(content)
            new_sizes.extend(_number(key) + _number(len(content)) + bytes([kind]))

    outside = sizes.number()  # groups of others than dialects, which come first
    new_sizes += _number(outside)
    for _ in range(outside):
        group()
    while not sizes.ended:
        group()
    if not resources.ended:
        raise ValueError("the sizes of its resources are wrong")
    return memoryview(new_sizes), memoryview(new_resources)


def _blob(resources: _Reader, size: int) -> memoryview:
    """Return the data of a resource that takes ``size`` bytes with its alignment, length and padding."""
    end = resources.at + size
    alignment, length = resources.number(), resources.number()
    resources.align(alignment)
    content = resources.bytes(length)
    if resources.at != end:
        raise ValueError("the size of a resource is wrong")
    return content


class _Reader:
    """Reads bytes from the front. Methods raise ``ValueError`` at the end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self.at = 0

    @property
    def ended(self) -> bool:
        return self.at == len(self._data)

    def bytes(self, count: int) -> memoryview:
        found = self._data[self.at : self.at + count]
        if len(found) != count:
            raise ValueError("it ends early")
        self.at += count
        return found

    def byte(self) -> int:
        return self.bytes(1)[0]

    def number(self) -> int:
        """Read a number: as many bytes follow as the first byte has zeros at its end."""
        first = self.byte()
        if not first:
            return int.from_bytes(self.bytes(8), "little")
        more = (first & -first).bit_length() - 1
        return (first | int.from_bytes(self.bytes(more), "little") << 8) >> (more + 1)

    def align(self, alignment: int) -> None:
        if alignment < 1:
            raise ValueError("an alignment is 0")
        self.bytes(-self.at % alignment)


def _number(value: int) -> bytes:
    """Write what :meth:`_Reader.number` reads."""
    size = max(1, -(-value.bit_length() // 7))
    if size > 8:
        return b"\0" + value.to_bytes(8, "little")
    return (value << size | 1 << (size - 1)).to_bytes(size, "little")
