"""ELF: one file opened with pyelftools, with the few look-ups that inspection needs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section, SymbolTableSection

MAGIC = b"\x7fELF"
EM_X86_64 = 62
EM_AARCH64 = 183
EM_CUDA = 190
EM_AMDGPU = 224

_HEADER_BYTES = 64


class DamagedError(Exception):
    """The bytes are not of the format that they begin like; the text is the reason."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever a parser raises over damaged bytes into ``DamagedError``.

    Broad on purpose: pyelftools and msgpack let a dozen kinds of exceptions through, and in here
    nothing but bytes of unknown origin is looked at.
    """
    try:
        yield
    except DamagedError:
        raise
    except Exception as error:
        raise DamagedError(f"damaged {what}: {error or type(error).__name__}") from error


class Elf:
    """Sections, symbols and flags of an ELF image in memory. Use inside :func:`reading`."""

    def __init__(self, data: bytes) -> None:
        from elftools.elf.elffile import ELFFile

        if len(data) < _HEADER_BYTES or data[4] != 2 or data[5] != 1:
            raise DamagedError("not a whole 64-bit little-endian ELF file")
        self.data = data
        self._file: ELFFile = ELFFile(io.BytesIO(data))
        header = self._file.header
        # Refused before anything is looped over: a damaged count would cost hours.
        count = self._file.num_sections()
        if header["e_shoff"] + count * header["e_shentsize"] > len(data) or (
            count and header["e_shentsize"] != _HEADER_BYTES
        ):
            raise DamagedError("the section table of the ELF file is cut off")
        self.machine = int.from_bytes(data[18:20], "little")
        self.flags = int.from_bytes(data[48:52], "little")
        self.abi_version = data[8]
        self._all = list(self._file.iter_sections())
        self.sections: dict[str, Section] = {s.name: s for s in self._all}

    def bytes_of(self, name: str) -> bytes:
        """Return the content of all sections called ``name``; empty when there is none."""
        return b"".join(bytes(section.data()) for section in self._all if section.name == name)

    def notes(self) -> Iterator[tuple[str, int | str, bytes]]:
        """Yield owner, type and content of each note."""
        from elftools.elf.sections import NoteSection

        for section in self._all:
            if isinstance(section, NoteSection):
                for note in section.iter_notes():
                    yield note["n_name"], note["n_type"], note["n_descdata"]

    def symbols(self) -> Iterator[tuple[str, bytes]]:
        """Yield names and contents of data symbols, static or dynamic, each name once."""
        from elftools.elf.sections import SymbolTableSection

        seen = set()
        for table in [s for s in self._all if isinstance(s, SymbolTableSection)]:
            for symbol in table.iter_symbols():
                section, index = None, symbol["st_shndx"]
                if isinstance(index, int) and symbol["st_info"]["type"] == "STT_OBJECT":
                    section = self._file.get_section(index)
                if section is None or symbol.name in seen or section["sh_type"] == "SHT_NOBITS":
                    continue
                seen.add(symbol.name)
                # In a relocatable file values count from the section's start, and sh_addr is 0.
                begin = section["sh_offset"] + symbol["st_value"] - section["sh_addr"]
                end = begin + symbol["st_size"]
                if section["sh_offset"] <= begin <= end <= section["sh_offset"] + section["sh_size"]:
                    yield symbol.name, self.data[begin:end]

    def functions(self) -> Iterator[tuple[str, int, int]]:
        """Yield name, address and size in bytes of each function of known size; some may come twice."""
        for name in (".symtab", ".dynsym"):
            table = self.symbol_table(name)
            for symbol in table.iter_symbols() if table is not None else ():
                if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"]:
                    yield symbol.name, int(symbol["st_value"]), int(symbol["st_size"])

    def symbol_table(self, name: str) -> SymbolTableSection | None:
        """Return the symbol table called ``name``."""
        from elftools.elf.sections import SymbolTableSection

        section = self.sections.get(name)
        return section if isinstance(section, SymbolTableSection) else None

    def address_of(self, name: str) -> int | None:
        """Return the address of dynamic symbol ``name``."""
        table = self.symbol_table(".dynsym")
        found = table.get_symbol_by_name(name) if table is not None else None
        return int(found[0]["st_value"]) if found else None

    def at(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at an address, with relative relocations applied. Raises ``DamagedError``."""
        begin = self._offset(address, size)
        found = bytearray(self.data[begin : begin + size])
        for place, value in self._relative().items():
            if address <= place <= address + size - 8:
                found[place - address : place - address + 8] = value.to_bytes(8, "little")
        return bytes(found)

    def text_at(self, address: int, limit: int = 4096) -> str:
        """Return the NUL-terminated text at an address. Raises ``DamagedError``."""
        begin = self._offset(address, 1)
        end = self.data.find(b"\0", begin, begin + limit)
        if end < 0:
            raise DamagedError(f"no text at address {address:#x}")
        return self.data[begin:end].decode()

    def _offset(self, address: int, size: int) -> int:
        """Return where the file has the ``size`` bytes at an address."""
        for offset in self._file.address_offsets(address, size):
            return int(offset)
        raise DamagedError(f"address {address:#x} is outside the file")

    def _relative(self) -> dict[int, int]:
        from elftools.elf.relocation import RelocationSection

        relative_types = {EM_X86_64: 8, EM_AARCH64: 1027}
        table = self.sections.get(".rela.dyn")
        if not isinstance(table, RelocationSection):
            return {}
        return {
            r["r_offset"]: r["r_addend"] % (1 << 64)
            for r in table.iter_relocations()
            if r["r_info_type"] == relative_types.get(self.machine)
        }
