"""Object file: what a loader must know of a relocatable ELF object: symbols, constructors, threads' data."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gpubuild.errors import StepError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_RELOCATABLE = 1
_SYMBOL_TABLE, _RELOCATIONS = 2, 4
_THREAD_LOCAL = 0x400
_RESERVED = 0xFF00  # section numbers from here on mean something else
_DEFAULT_PRIORITY = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """``section`` is 0 for a symbol that is defined elsewhere."""

    name: str
    section: int
    value: int  # bytes from the start of its section
    is_local: bool
    is_weak: bool
    is_code_or_data: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A function that runs before or after ``main``: a place in a section of code."""

    priority: int  # lower ones run earlier before main, later after it
    section: int
    offset: int  # bytes
    symbol: str = ""  # instead of the section: where the function is, when it is global


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFile:
    """One object."""

    symbols: tuple[Symbol, ...]
    constructors: tuple[Start, ...]
    destructors: tuple[Start, ...]
    has_thread_data: bool


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    info: int
    link: int


def read(data: bytes, name: str) -> ObjectFile:
    """Read a little-endian 64-bit object. Raises ``StepError`` for anything else."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError) as error:
        raise StepError(f"{name} is not a 64-bit ELF object that can be loaded: {error}") from error


def _read(data: bytes) -> ObjectFile:
    header = _HEADER.unpack_from(data)
    if data[:6] != b"\x7fELF\2\1" or header[1] != _RELOCATABLE:
        raise ValueError("its header says so")
    start, count, names = header[6], header[12], header[13]
    raw = [_SECTION.unpack_from(data, start + number * _SECTION.size) for number in range(count)]
    strings = raw[names]
    sections = [_Section(_text(data, strings[4] + r[0]), r[1], r[2], r[4], r[5], r[7], r[6]) for r in raw]
    symbols: tuple[Symbol, ...] = ()
    for section in sections:
        if section.kind == _SYMBOL_TABLE:
            symbols = tuple(_symbols(data, section, sections[section.link].offset))
    return ObjectFile(
        symbols=symbols,
        constructors=_starts(data, sections, symbols, ".init_array"),
        destructors=_starts(data, sections, symbols, ".fini_array"),
        has_thread_data=any(s.flags & _THREAD_LOCAL for s in sections),
    )


def _symbols(data: bytes, table: _Section, strings: int) -> Iterator[Symbol]:
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, info, _, section, value, _ = _SYMBOL.unpack_from(data, at)
        binding, kind = info >> 4, info & 15
        yield Symbol(
            name=_text(data, strings + name),
            section=section,
            value=value,
            is_local=binding == 0,
            is_weak=binding == 2,
            is_code_or_data=kind in (0, 1, 2, 10) and section < _RESERVED,
        )


def _starts(
    data: bytes, sections: list[_Section], symbols: tuple[Symbol, ...], name: str
) -> tuple[Start, ...]:
    """The pointers of an array, which are relocations, in the order in which linkers put them."""
    found = []
    for section in sections:
        if section.kind != _RELOCATIONS or not sections[section.info].name.startswith(name):
            continue
        ending = sections[section.info].name[len(name) + 1 :]
        priority = int(ending) if ending.isdigit() else _DEFAULT_PRIORITY
        entries = []
        for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
            place, info, addend = _RELOCATION.unpack_from(data, at)
            symbol = symbols[info >> 32]
            entries.append(
                (
                    place,
                    Start(
                        priority=priority,
                        section=symbol.section,
                        offset=symbol.value + addend,
                        symbol="" if symbol.section else symbol.name,
                    ),
                )
            )
        found += [start for _, start in sorted(entries, key=lambda entry: entry[0])]
    return tuple(found)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode()
