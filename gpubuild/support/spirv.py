"""Read kernels from a SPIR-V module (SPIR-V specification, sections 2.3 and 3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gpubuild.support.frozen import frozen

MAGIC = b"\x03\x02\x23\x07"  # little endian
_HEADER_WORDS = 5
_EXTENSION, _ENTRY_POINT, _EXECUTION_MODE = 10, 15, 16
_TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR, _TYPE_ARRAY, _TYPE_STRUCT, _TYPE_POINTER = 21, 22, 23, 28, 30, 32
_CONSTANT, _FUNCTION, _PARAMETER, _VARIABLE = 43, 54, 55, 59
_KERNEL = 6  # an execution model
_WORKGROUP_SIZE, _SUBGROUP_SIZE = 17, 35  # execution modes
_WORKGROUP, _PRIVATE = 4, 7  # storage classes
_MEMORIES = {0: "constant", _WORKGROUP: "workgroup", 5: "global", 8: "generic"}
_POINTER_BYTES = 8


@frozen
class SpirvKernel:
    """A kernel, and what it requires of a launch.

    ``parameters`` are types such as ``i32`` and ``ptr<global>``. ``workgroup_bytes`` are those of static
    workgroup memory, which all kernels of a module share.
    """

    name: str
    parameters: tuple[str, ...]
    workgroup_bytes: int
    workgroup_size: tuple[int, ...] | None
    subgroup_size: int | None


@frozen
class SpirvModule:
    """Its version, such as ``1.3``, and its kernels in order."""

    version: str
    kernels: tuple[SpirvKernel, ...]


class _Reader:
    """The state of reading one module, an instruction at a time."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}  # of kernels, by id
        self.subgroup_sizes: dict[int, int] = {}
        self.workgroup_sizes: dict[int, tuple[int, ...]] = {}
        self.parameters: dict[int, list[str]] = {}
        self.workgroup_bytes = 0
        self._sizes: dict[int, int] = {}  # bytes, by type
        self._types: dict[int, str] = {}  # names of those of parameters
        self._constants: dict[int, int] = {}
        self._pointees: dict[int, int] = {}  # of pointers to workgroup memory
        self._function = 0

    def read(self, code: int, operands: tuple[int, ...]) -> None:
        if code == _ENTRY_POINT and operands[0] == _KERNEL:
            self.names[operands[1]] = _string(operands[2:])
        elif code == _EXECUTION_MODE and operands[1] == _SUBGROUP_SIZE:
            self.subgroup_sizes[operands[0]] = operands[2]
        elif code == _EXECUTION_MODE and operands[1] == _WORKGROUP_SIZE:
            self.workgroup_sizes[operands[0]] = operands[2:5]
        elif code == _CONSTANT:
            self._constants[operands[1]] = operands[2]
        elif code == _VARIABLE and operands[2] == _WORKGROUP:
            self.workgroup_bytes += self._sizes.get(self._pointees.get(operands[0], 0), 0)
        elif code == _FUNCTION:
            self._function = operands[1]
            self.parameters[self._function] = []
        elif code == _PARAMETER:
            self.parameters[self._function].append(self._types.get(operands[0], "?"))
        else:
            self._read_type(code, operands)

    def _read_type(self, code: int, operands: tuple[int, ...]) -> None:
        sizes = self._sizes
        if code in (_TYPE_INT, _TYPE_FLOAT):
            sizes[operands[0]] = operands[1] // 8
            self._types[operands[0]] = f"{'i' if code == _TYPE_INT else 'f'}{operands[1]}"
        elif code == _TYPE_VECTOR:
            sizes[operands[0]] = sizes.get(operands[1], 0) * operands[2]
            if (element := self._types.get(operands[1], "")) and "<" not in element:
                self._types[operands[0]] = f"vector<{operands[2]}x{element}>"
        elif code == _TYPE_ARRAY:
            sizes[operands[0]] = sizes.get(operands[1], 0) * self._constants.get(operands[2], 0)
        elif code == _TYPE_STRUCT:
            sizes[operands[0]] = sum(sizes.get(member, 0) for member in operands[1:])
        elif code == _TYPE_POINTER:
            sizes[operands[0]] = _POINTER_BYTES
            copied = f"{sizes.get(operands[2], 0)} bytes"  # a struct is passed by a pointer to a copy
            memory = _MEMORIES.get(operands[1], "?")
            self._types[operands[0]] = copied if operands[1] == _PRIVATE else f"ptr<{memory}>"
            if operands[1] == _WORKGROUP:
                self._pointees[operands[0]] = operands[2]


def read_module(data: bytes) -> SpirvModule:
    """Read the module ``data``. Raises ``ValueError`` where it is damaged."""
    if not data.startswith(MAGIC) or len(data) % 4 or len(data) < 4 * _HEADER_WORDS:
        raise ValueError("not a SPIR-V module")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    reader = _Reader()
    try:
        for code, operands in _instructions(words):
            reader.read(code, operands)
    except (IndexError, KeyError) as error:
        raise ValueError("the SPIR-V module is damaged") from error
    kernels = tuple(
        SpirvKernel(
            name=name,
            parameters=tuple(reader.parameters.get(number, ())),
            workgroup_bytes=reader.workgroup_bytes,
            workgroup_size=reader.workgroup_sizes.get(number),
            subgroup_size=reader.subgroup_sizes.get(number),
        )
        for number, name in reader.names.items()
    )
    return SpirvModule(version=f"{words[1] >> 16 & 0xFF}.{words[1] >> 8 & 0xFF}", kernels=kernels)


def without_extension(data: bytes, name: str) -> bytes:
    """Return the module ``data`` without the declaration of an extension."""
    encoded = name.encode() + b"\0" * (4 - len(name) % 4)
    declared = struct.pack("<I", (1 + len(encoded) // 4) << 16 | _EXTENSION) + encoded
    return data.replace(declared, b"", 1)


def _instructions(words: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    at = _HEADER_WORDS
    while at < len(words):
        count, code = words[at] >> 16, words[at] & 0xFFFF
        if count == 0 or at + count > len(words):
            raise ValueError("the SPIR-V module is cut off")
        yield code, words[at + 1 : at + count]
        at += count


def _string(words: tuple[int, ...]) -> str:
    data = struct.pack(f"<{len(words)}I", *words)
    return data.split(b"\0", 1)[0].decode()
