"""Resource objects: put the data of resources into code, as LLVM IR for GPUs, past LLVM for the rest.

For the host and for CPUs LLVM works with declarations, so that it assumes nothing about the values.
Before code is emitted they are defined, one byte each, in sections of their own. The data then go to
the end of the object, and the section's header says so: nothing in a relocatable object refers to
the size of a section.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from llvmlite import binding

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.resources import External, StepResources

# ELF for 64 bits, little-endian: the parts of headers, sections and symbols that are read or changed.
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SIZE = struct.Struct("<Q")  # the last field of a symbol
_EXTENT = struct.Struct("<QQ")  # offset and size of a section
_EXTENT_OFFSET = 24  # of these in a section's header
_NAME, _KIND, _OFFSET, _BYTES = 0, 1, 4, 5  # fields of a section's header
_SYMBOL_TABLE, _DATA_SYMBOL = 2, 1
_RESERVED = 0xFF00  # section numbers from here on mean something else
_LOCAL = ("internal", "private")
_PAGE = 4096  # bytes; sections with data begin at multiples of it
_EMPTY = "[1 x i8] zeroinitializer"


def declare(module: binding.ModuleRef, externals: Sequence[External]) -> None:
    """Give the declarations a name and a visibility with which nothing but :func:`define` defines them."""
    for item in externals:
        variable = module.get_global_variable(item.name)
        variable.name = item.stand_in
        variable.visibility = "hidden"


def define(
    module: binding.ModuleRef, externals: Sequence[External], linkage: str = ""
) -> dict[str, External]:
    """Define them, under their own names, if they are used or visible outside; the section of each.

    ``linkage`` replaces their own.
    """
    sections: dict[str, External] = {}
    declared = {variable.name for variable in module.global_variables}
    for item in externals:
        wanted = linkage or item.linkage
        if item.stand_in not in declared and wanted in _LOCAL:
            continue
        section = f".{'rodata' if item.constant else 'data'}.{item.stand_in}"
        _define(module, item, f'{_EMPTY}, section "{section}"', wanted)
        sections[section] = item
    return sections


def define_in_place(
    module: binding.ModuleRef, externals: Sequence[External], resources: StepResources
) -> None:
    """Define the variables that :func:`declare` has renamed, with their data."""
    for item in externals:
        data = resources.data(item.digest)
        digits = data.hex("\\")
        _define(module, item, f'[{len(data)} x i8] c"\\{digits}"', item.linkage)


def _define(module: binding.ModuleRef, item: External, value: str, linkage: str) -> None:
    kind = f"addrspace({item.space}) {'constant' if item.constant else 'global'}"
    text = f"@{item.stand_in} = hidden {kind} {value}, align {item.alignment}\n"
    llvm.link_text(module, text, "resource")
    variable = module.get_global_variable(item.stand_in)
    variable.name = item.name
    variable.linkage = linkage
    variable.visibility = "hidden" if item.hidden and linkage not in _LOCAL else "default"


def write_object(path: Path, code: bytes, sections: Mapping[str, External], resources: StepResources) -> None:
    """Write the object ``code`` to ``path``, with their data in ``sections``."""
    data = {name: resources.data(item.digest) for name, item in sections.items()}
    offsets: dict[str, int] = {}
    end = len(code)
    for name, view in data.items():
        offsets[name] = -(-end // _PAGE) * _PAGE
        end = offsets[name] + len(view)
    with path.open("wb") as stream:
        stream.write(move_sections(code, {name: (offsets[name], len(data[name])) for name in data}))
        for name, view in data.items():
            stream.seek(offsets[name])
            stream.write(view)


def move_sections(data: bytes, extents: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the object with sections at another (offset, size); their one symbol gets that size, too."""
    if not extents:
        return data
    changed = bytearray(data)
    header = _HEADER.unpack_from(data)
    start, count, strings = header[6], header[12], header[13]
    sections = [_SECTION.unpack_from(data, start + number * _SECTION.size) for number in range(count)]
    names = [_text(data, sections[strings][_OFFSET] + section[_NAME]) for section in sections]
    for number, name in enumerate(names):
        if name in extents:
            _EXTENT.pack_into(changed, start + number * _SECTION.size + _EXTENT_OFFSET, *extents[name])
    for table in sections:
        if table[_KIND] == _SYMBOL_TABLE:
            for at in range(table[_OFFSET], table[_OFFSET] + table[_BYTES], _SYMBOL.size):
                _, info, _, number, _, _ = _SYMBOL.unpack_from(data, at)
                if info & 15 == _DATA_SYMBOL and number < _RESERVED and names[number] in extents:
                    _SIZE.pack_into(changed, at + _SYMBOL.size - _SIZE.size, extents[names[number]][1])
    return bytes(changed)


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(0, at)].decode()
