"""WebAssembly objects: functions by the symbol table of their section ``linking``."""

from __future__ import annotations

from collections.abc import Iterator

from gpubuild.inspect.elf import Elf
from gpubuild.inspect.records import Kernel, Object

_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORT, _CODE = 0, 2, 10
_SYMBOLS = 8  # a subsection of "linking"
_LOCAL, _UNDEFINED = 0x2, 0x10


def describe(data: bytes, elf: Elf | None) -> Object | None:
    if not data.startswith(_MAGIC):
        return None
    sections = list(_sections(_Bytes(data[len(_MAGIC) :])))
    imports = sum(_imported_functions(s) for number, s in sections if number == _IMPORT)
    sizes = [size for number, s in sections if number == _CODE for size in _code(s)]
    kernels = []
    for number, section in sections:
        if number == _CUSTOM and section.name() == "linking":
            kernels = [
                Kernel(name=name, code_bytes=sizes[index - imports]) for name, index in _functions(section)
            ]
    return Object(format="bin", kernels=tuple(kernels))


class _Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("the module is cut off")
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """An unsigned LEB128 number."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def name(self) -> str:
        return self.take(self.number()).decode()

    def part(self) -> _Bytes:
        return _Bytes(self.take(self.number()))

    def __bool__(self) -> bool:
        return self.at < len(self.data)


def _sections(module: _Bytes) -> Iterator[tuple[int, _Bytes]]:
    while module:
        (number,) = module.take(1)
        yield number, module.part()


def _imported_functions(section: _Bytes) -> int:
    functions = 0
    for _ in range(section.number()):
        section.name()
        section.name()
        (kind,) = section.take(1)
        functions += kind == 0
        if kind == 0:
            section.number()
        elif kind == 1:  # a table
            section.take(1)
            _limits(section)
        elif kind == 2:  # memory
            _limits(section)
        else:  # a global variable
            section.take(2)
    return functions


def _limits(section: _Bytes) -> None:
    flags = section.number()
    section.number()
    if flags & 1:
        section.number()


def _code(section: _Bytes) -> Iterator[int]:
    for _ in range(section.number()):
        yield len(section.part().data)


def _functions(linking: _Bytes) -> Iterator[tuple[str, int]]:
    """Names and indices of the functions that are defined for others, in the order of the table."""
    linking.number()  # the version
    while linking:
        (number,) = linking.take(1)
        table = linking.part()
        if number != _SYMBOLS:
            continue
        for _ in range(table.number()):
            (kind,) = table.take(1)
            flags = table.number()
            if kind != 0:
                return  # functions come first
            index = table.number()
            if not flags & _UNDEFINED:
                name = table.name()
                if not flags & _LOCAL:
                    yield name, index
