"""Link shared libraries, static libraries and relocatable objects, which export the user's functions only.

A program may contain several of them. Each has a runtime of its own, so all other symbols are hidden: by a
version script, or in a relocatable object by making them local.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpubuild.engine.cc.driver import run_driver
from gpubuild.engine.cc.link import copy_inputs, link
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.project import Product
from gpubuild.model.step import LibraryParams
from gpubuild.support.frozen import frozen

_C_INTERFACE = "_mlir_ciface_"
_VERSION_SCRIPT = "exports.map"


def run(params: LibraryParams, io: StepIO) -> None:
    """Write ``library``. Raises ``StepError`` like ``link.run``, and where nothing is exported."""
    with io.stage("link"):
        files = copy_inputs(io)
        exports = exported(files, io)
        if not exports:
            raise StepError(
                f"{params.file_name} would export no function",
                hint="give a func.func the attribute llvm.emit_c_interface, or list a C source with a "
                "function that is not static",
            )
        if params.product is Product.SHARED:
            made = _shared(params, io, files, exports)
        else:
            made = link(params.link, io, files, ("-r", "-nostdlib"), libraries=())
            made.write_bytes(localized(made.read_bytes(), exports))
            if params.product is Product.STATIC:
                made = _archive(params.file_name, made, io)
        io.move_out("library", made)


def _shared(params: LibraryParams, io: StepIO, files: Mapping[str, Path], exports: Iterable[str]) -> Path:
    for name in sorted(exports):
        if '"' in name or "@" in name:  # the end of a name in a version script, and a symbol's version
            raise StepError(f'{params.file_name} cannot export {name}: linkers take no @ and no " in names')
    names = "".join(f'  "{name}";\n' for name in sorted(exports))
    script = f"{{\nglobal:\n{names}local: *;\n}};\n"
    (io.scratch / _VERSION_SCRIPT).write_text(script, encoding="utf-8")
    mode = [
        "-shared",
        f"-Wl,-soname,{params.file_name}",
        f"-Wl,--version-script={_VERSION_SCRIPT}",
        "-Wl,-z,defs",  # a missing function is an error now instead of in dlopen
    ]
    if Path(io.tool("cxx" if params.link.cxx else "cc")[0]).name != "zig":  # which refuses the flag
        # Another library may export functions of the same names.
        mode.append("-Wl,-Bsymbolic-functions")
    return link(params.link, io, files, mode)


def _archive(file_name: str, made: Path, io: StepIO) -> Path:
    member = file_name.removeprefix("lib").removesuffix(".a") + ".o"
    made.rename(io.scratch / member)
    run_driver(io, "ar", ["rcsD", file_name, member]).check("creating a static library")
    return io.scratch / file_name


def exported(files: Mapping[str, Path], io: StepIO) -> set[str]:
    """Return the names of the symbols to export.

    Of MLIR sources these are the functions with ``llvm.emit_c_interface``, each with its wrapper; of C
    sources and objects all that are visible by the compiler's rules. ``main`` is none.
    """
    exports: set[str] = set()
    for role, file in files.items():
        kind = role.partition(".")[0]
        if kind not in ("host", "object"):
            continue
        try:
            names = {s.name for s in SymbolTable(bytearray(file.read_bytes())).symbols if s.is_visible}
        except ValueError as error:
            raise StepError(
                f"cannot list the functions that {io.path(role).name} exports: {error}",
                hint="libraries are linked from ELF objects: compile without -flto, or link it into "
                "an executable",
            ) from error
        if kind == "host":
            wrapped = {name for name in names if name.startswith(_C_INTERFACE)}
            names &= wrapped | {name.removeprefix(_C_INTERFACE) for name in wrapped}
        exports |= names
    return exports - {"main"}


def localized(data: bytes, exports: set[str]) -> bytes:
    """Return a relocatable object in which only ``exports`` and undefined symbols are global."""
    table = SymbolTable(bytearray(data))
    table.make_local({s.index for s in table.symbols if s.is_defined and s.name not in exports})
    return bytes(table.data)


_SYMBOL = struct.Struct("<IBBHQQ")  # name, binding and type, visibility, section, value, size
_SECTION = struct.Struct("<IIQQQQIIQQ")  # name, type, flags, address, offset, size, link, info, …
_LINK_AND_INFO = 40  # offset of these two in a section header
_SYMTAB, _RELA, _REL, _GROUP, _SYMTAB_SHNDX = 2, 4, 9, 17, 18
_RELOCATION_BYTES = {_RELA: 24, _REL: 16}
_PROGBITS = 1
_ADDRSIG = 0x6FFF4C03  # numbers of symbols whose address matters: only an aid for `ld.lld --icf`
_LOCAL, _COMMON = 0, 0xFFF2
_DEFAULT, _PROTECTED = 0, 3
_LTO = "__gnu_lto_"


@frozen
class Symbol:
    """A symbol of a relocatable object."""

    index: int
    name: str
    is_defined: (
        bool  # as a global symbol; tentative definitions of C are merged by name, and count as undefined
    )
    is_visible: bool  # outside the file that it is linked into


class SymbolTable:
    """The symbol table of a 64-bit little-endian ELF object. Raises ``ValueError`` for other files."""

    def __init__(self, data: bytearray) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or data[16:18] != b"\x01\x00":
            raise ValueError("it is not a relocatable ELF object")
        self.data = data
        self._headers = int.from_bytes(data[40:48], "little")
        count = int.from_bytes(data[60:62], "little") or self._section(0)[5]
        self._sections = [self._section(number) for number in range(count)]
        tables = [number for number, section in enumerate(self._sections) if section[1] == _SYMTAB]
        if not tables:
            raise ValueError("it has no symbols")
        self._number = tables[0]
        _, _, _, _, self._offset, size, names, *_ = self._sections[self._number]
        self._count = size // _SYMBOL.size
        self._names = self._sections[names][4]
        self.symbols = list(self._read())
        if any(symbol.name.startswith(_LTO) for symbol in self.symbols):
            raise ValueError("it was compiled with -flto")

    def _section(self, number: int) -> tuple[int, ...]:
        return _SECTION.unpack_from(self.data, self._headers + number * _SECTION.size)

    def _read(self) -> Iterator[Symbol]:
        for index in range(self._count):
            name, info, other, section, *_ = _SYMBOL.unpack_from(
                self.data, self._offset + index * _SYMBOL.size
            )
            begin = self._names + name
            text = self.data[begin : self.data.index(0, begin)].decode(errors="surrogateescape")
            is_global = info >> 4 != _LOCAL
            yield Symbol(
                index=index,
                name=text,
                is_defined=is_global and section not in (0, _COMMON),
                is_visible=is_global and section != 0 and other & 3 in (_DEFAULT, _PROTECTED),
            )

    def make_local(self, indices: set[int]) -> None:
        """Make symbols local. Local symbols come first in a table, so all are numbered again."""
        old = [bytes(self.data[self._at(n) : self._at(n + 1)]) for n in range(self._count)]
        is_local = [old[n][4] >> 4 == _LOCAL or n in indices for n in range(self._count)]
        order = sorted(range(self._count), key=lambda n: not is_local[n])
        numbers = {before: now for now, before in enumerate(order)}
        for now, before in enumerate(order):
            entry = bytearray(old[before])
            if before in indices:
                entry[4] &= 0xF
                entry[5] &= ~3  # hidden means nothing for a local symbol
            self.data[self._at(now) : self._at(now + 1)] = entry
        self._write(self._header(self._number) + _LINK_AND_INFO + 4, sum(is_local))
        for number, section in enumerate(self._sections):
            if section[6] == self._number:
                self._renumber(number, numbers, order, indices)

    def _renumber(self, number: int, numbers: Mapping[int, int], order: list[int], local: set[int]) -> None:
        """Correct the numbers of symbols in a section that refers to the table."""
        _, kind, _, _, offset, size, _, info, *_ = self._sections[number]
        if kind in _RELOCATION_BYTES:
            for at in range(offset + 12, offset + size, _RELOCATION_BYTES[kind]):
                self._write(at, numbers[self._word(at)])
        elif kind == _GROUP:
            self._write(self._header(number) + _LINK_AND_INFO + 4, numbers[info])
            if info in local:
                self._write(offset, 0)  # linkers must not replace it by a group of another file
        elif kind == _SYMTAB_SHNDX:
            words = [self._word(offset + 4 * before) for before in order]
            for now, word in enumerate(words):
                self._write(offset + 4 * now, word)
        elif kind == _ADDRSIG:
            self._write(self._header(number) + 4, _PROGBITS)

    def _at(self, index: int) -> int:
        return self._offset + index * _SYMBOL.size

    def _header(self, number: int) -> int:
        return self._headers + number * _SECTION.size

    def _word(self, at: int) -> int:
        return int.from_bytes(self.data[at : at + 4], "little")

    def _write(self, at: int, word: int) -> None:
        self.data[at : at + 4] = word.to_bytes(4, "little")
