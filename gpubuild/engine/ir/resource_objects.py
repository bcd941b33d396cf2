"""Put the data of resources into code: into LLVM IR for GPUs, directly into object files for CPUs.

LLVM optimises with declarations, so that it assumes nothing about the values. For the host and for
CPUs, one byte in a section of its own then defines each. The data are appended to the object file, and
the section's header changed: nothing in a relocatable object refers to the size of a section.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.resources import External, StepResources

_SIZE = struct.Struct("<Q")
_SIZE_OFFSET = 16  # in a symbol
_EXTENT = struct.Struct("<QQ")  # offset and size of a section
_EXTENT_OFFSET = 24  # in a section's header
_LOCAL = ("internal", "private")
_PAGE = 4096  # bytes; sections with data begin at multiples of it
_ROW = 32_768  # bytes: SPIR-V has less than 65,536 words in an instruction, one for each element
_EMPTY = "[1 x i8] zeroinitializer"


def declare(module: llvm.Module, externals: Sequence[External]) -> None:
    """Rename the declarations and hide them, so that only :func:`define` can define them."""
    for item in externals:
        variable = module.get_global_variable(item.name)
        variable.name = item.stand_in
        variable.visibility = "hidden"


def define(module: llvm.Module, externals: Sequence[External], linkage: str = "") -> dict[str, External]:
    """Define variables that are used or visible outside, under their own names; return them by section.

    ``linkage`` replaces that of the source.
    """
    sections: dict[str, External] = {}
    declared = {variable.name for variable in module.global_variables}
    for item in externals:
        final = linkage or item.linkage
        if item.stand_in not in declared and final in _LOCAL:
            continue
        section = f".{'rodata' if item.constant else 'data'}.{item.stand_in}"
        _define(module, item, f'{_EMPTY}, section "{section}"', final)
        sections[section] = item
    return sections


def define_in_place(module: llvm.Module, externals: Sequence[External], resources: StepResources) -> None:
    """Define the variables that :func:`declare` renamed, with their data."""
    for item in externals:
        data = resources.data(item.digest)
        rows = [data[start : start + _ROW] for start in range(0, len(data), _ROW)]
        types = [f"[{len(row)} x i8]" for row in rows]
        values = [kind + ' c"\\' + row.hex("\\") + '"' for kind, row in zip(types, rows, strict=True)]
        value = f"<{{ {', '.join(types)} }}> <{{ {', '.join(values)} }}>"
        _define(module, item, value, item.linkage)


def _define(module: llvm.Module, item: External, value: str, linkage: str) -> None:
    kind = f"addrspace({item.space}) {'constant' if item.constant else 'global'}"
    text = f"@{item.stand_in} = hidden {kind} {value}, align {item.alignment}\n"
    llvm.link_text(module, text, "resource")
    variable = module.get_global_variable(item.stand_in)
    variable.name = item.name
    variable.linkage = linkage
    variable.visibility = "hidden" if item.hidden and linkage not in _LOCAL else "default"


def write_object(path: Path, code: bytes, sections: Mapping[str, External], resources: StepResources) -> None:
    """Write the object ``code`` to ``path``, with the data of resources in ``sections``."""
    write_sections(path, code, {name: [resources.data(item.digest)] for name, item in sections.items()})


def write_sections(path: Path, code: bytes, sections: Mapping[str, Sequence[bytes | memoryview]]) -> None:
    """Write the object ``code`` to ``path``, with other data, in pieces, in ``sections``."""
    extents: dict[str, tuple[int, int]] = {}
    end = len(code)
    for name, pieces in sections.items():
        start = -(-end // _PAGE) * _PAGE
        extents[name] = start, sum(map(len, pieces))
        end = sum(extents[name])
    with path.open("wb") as stream:
        stream.write(move_sections(code, extents))
        for name, pieces in sections.items():
            stream.seek(extents[name][0])
            stream.writelines(pieces)


def move_sections(data: bytes, extents: Mapping[str, tuple[int, int]]) -> bytes:
    """Return the object with sections at other (offset, size); the symbol of each gets that size, too."""
    if not extents:
        return data
    from elftools.elf.elffile import ELFFile  # here: few modules have resources
    from elftools.elf.sections import SymbolTableSection

    changed = bytearray(data)
    file = ELFFile(io.BytesIO(data))
    for number, section in enumerate(file.iter_sections()):
        if section.name in extents:
            header = file["e_shoff"] + number * file["e_shentsize"]
            _EXTENT.pack_into(changed, header + _EXTENT_OFFSET, *extents[section.name])
        for index, symbol in enumerate(
            section.iter_symbols() if isinstance(section, SymbolTableSection) else ()
        ):
            if symbol["st_info"]["type"] != "STT_OBJECT" or not isinstance(symbol["st_shndx"], int):
                continue
            name = file.get_section(symbol["st_shndx"]).name
            if name in extents:
                at = section["sh_offset"] + index * section["sh_entsize"] + _SIZE_OFFSET
                _SIZE.pack_into(changed, at, extents[name][1])
    return bytes(changed)
