"""Prepare relocatable ELF objects for LLVM's JIT linker: make their constructors' arrays findable.

The JIT linker runs no constructors of objects, and only global symbols have addresses that can be asked
for. So each ``.init_array`` and ``.fini_array`` section gets a global symbol.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from gpubuild.errors import StepError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATABLE = 1
_SYMBOL_TABLE = 2
_NAME, _FLAGS, _OFFSET, _SIZE, _LINK = 0, 2, 4, 5, 6  # fields of a section header
_THREAD_LOCAL_FLAG, _THREAD_LOCAL_TYPE = 0x400, 6
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2  # bindings
_DATA = 1
_RESERVED = 0xFF00  # section numbers from here on mean something else
_POINTER_BYTES = 8
_DEFAULT_PRIORITY = 65535
_ARRAY = re.compile(r"\.(init|fini)_array(?:\.(\d+)|\..*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionArray:
    """Pointers to functions that run before ``main``, or at exit."""

    symbol: str
    count: int
    priority: int  # lower ones run earlier before main, later at exit
    is_destructor: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JitObject:
    """One object with symbols for its arrays, and the names that it defines and needs."""

    data: bytes
    arrays: tuple[FunctionArray, ...]
    defined: frozenset[str]
    undefined: frozenset[str]  # but for weak ones
    has_thread_data: bool


def prepare(data: bytes, name: str, prefix: str, renamed: Mapping[str, str]) -> JitObject:
    """Read a little-endian 64-bit object. Raises ``StepError`` for anything else.

    Symbols of arrays begin with ``prefix``; undefined symbols are ``renamed``.
    """
    try:
        return _prepare(data, prefix, renamed)
    except (struct.error, ValueError, IndexError) as error:
        raise StepError(f"{name} is not a 64-bit ELF object that can be loaded: {error}") from error


def _prepare(data: bytes, prefix: str, renamed: Mapping[str, str]) -> JitObject:
    header = _HEADER.unpack_from(data)
    if data[:6] != b"\x7fELF\2\1" or header[1] != _RELOCATABLE:
        raise ValueError("its header says so")
    start, count, names_at = header[6], header[12], header[13]
    places = [start + number * _SECTION.size for number in range(count)]
    sections = [list(_SECTION.unpack_from(data, place)) for place in places]
    names = [_text(data, sections[names_at][_OFFSET] + section[_NAME]) for section in sections]
    table = next((n for n, section in enumerate(sections) if section[1] == _SYMBOL_TABLE), None)
    if table is None:
        raise ValueError("it has no symbols")
    strings = sections[table][_LINK]
    symbols = _Symbols(data, sections[table], sections[strings], renamed)
    arrays = []
    for section, name in enumerate(names):
        if match := _ARRAY.fullmatch(name):
            symbol, size = f"{prefix}.{section}", sections[section][_SIZE]
            symbols.add(symbol, section, size)
            # Without its dot: LLVM defines one symbol per program for the objects that it sees arrays in.
            sections[section][_NAME] += 1
            arrays.append(
                FunctionArray(
                    symbol=symbol,
                    count=size // _POINTER_BYTES,
                    priority=int(match[2] or _DEFAULT_PRIORITY),
                    is_destructor=match[1] == "fini",
                )
            )
    # The new tables go behind everything else, so that nothing moves.
    result = bytearray(data) + bytes(-len(data) % _SYMBOL.size)
    for section, content in ((table, symbols.table), (strings, symbols.strings)):
        sections[section][_OFFSET], sections[section][_SIZE] = len(result), len(content)
        result += content
    for place, fields in zip(places, sections, strict=True):
        _SECTION.pack_into(result, place, *fields)
    return JitObject(
        data=bytes(result),
        arrays=tuple(arrays),
        defined=frozenset(symbols.defined),
        undefined=frozenset(symbols.undefined),
        has_thread_data=symbols.has_thread_data or any(s[_FLAGS] & _THREAD_LOCAL_FLAG for s in sections),
    )


class _Symbols:
    """A symbol table and its strings, with names changed and symbols added."""

    def __init__(self, data: bytes, table: list[int], strings: list[int], renamed: Mapping[str, str]) -> None:
        self.table = bytearray(data[table[_OFFSET] : table[_OFFSET] + table[_SIZE]])
        self.strings = bytearray(data[strings[_OFFSET] : strings[_OFFSET] + strings[_SIZE]])
        self.defined: set[str] = set()
        self.undefined: set[str] = set()
        self.has_thread_data = False
        if len(self.table) < table[_SIZE] or len(self.strings) < strings[_SIZE]:
            raise ValueError("it is cut off")
        for at in range(0, len(self.table), _SYMBOL.size):
            text, info, other, section, value, size = _SYMBOL.unpack_from(self.table, at)
            name, binding = _text(self.strings, text), info >> 4
            self.has_thread_data = self.has_thread_data or info & 15 == _THREAD_LOCAL_TYPE
            if section:
                self.defined |= {name} if binding != _LOCAL else set()
            elif name:
                if name in renamed:
                    name = renamed[name]
                    _SYMBOL.pack_into(self.table, at, self._string(name), info, other, section, value, size)
                self.undefined |= {name} if binding != _WEAK else set()

    def add(self, name: str, section: int, size: int) -> None:
        """Add a global symbol for all of a section."""
        if section >= _RESERVED:
            raise ValueError("it has too many sections")
        self.table += _SYMBOL.pack(self._string(name), _GLOBAL << 4 | _DATA, 0, section, 0, size)

    def _string(self, text: str) -> int:
        at = len(self.strings)
        self.strings += text.encode() + b"\0"
        return at


def _text(data: bytes | bytearray, at: int) -> str:
    return data[at : data.index(0, at)].decode()
