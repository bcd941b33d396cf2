"""NVIDIA's images: machine code (cubin), PTX text, and fat binaries.

The format of cubins is not published; these facts are from the output of ptxas 12.9. A cubin does not
record spills: only a kernel without a stack frame certainly has none.
"""

from __future__ import annotations

import re
import struct

from gpubuild.inspect.elf import EM_CUDA, MAGIC, Elf
from gpubuild.inspect.records import Entry, Kernel, Object
from gpubuild.support.frozen import replace

_INFO_HAS_SIZE = 4  # of an entry of .nv.info: the payload's size follows, else 2 bytes of value
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_ABI_SINCE_SM_100 = 8
_RESERVED_SHARED_BYTES = 1024  # kept by the system at the start of workgroup memory, sm_90 and later
_FATBINARY, _FATBINARY_HEADER_BYTES = b"\x50\xed\x55\xba", 16
_ENTRY = struct.Struct("<H2xIQ12xI8xQ")  # kind, bytes of this header and of the code, chip, flags
_COMPRESSED, _SPECIFIC, _FAMILY = 0xA000, 0x100000, 0x200000  # flags of an entry; sm_90a; sm_100f
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_KERNEL = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


def describe(data: bytes, elf: Elf | None) -> Object | None:
    """Return what is known about an image; ``None`` if it is not NVIDIA's."""
    if elf is not None:
        if elf.machine != EM_CUDA:
            return None
        return Object(format="bin", chip=chip(elf), kernels=tuple(kernels(elf)))
    return describe_fatbin(data) if data.startswith(_FATBINARY) else describe_ptx(data)


def describe_fatbin(data: bytes) -> Object:
    """Return the entries of a fat binary, and the kernels of the first whose code can be read.

    The layout is that of fatbinary 12.9. Entries of unknown kinds are left out.
    """
    entries, known, at = [], None, _FATBINARY_HEADER_BYTES
    while at + _ENTRY.size <= len(data):
        kind, header_bytes, code_bytes, number, flags = _ENTRY.unpack_from(data, at)
        code = data[at + header_bytes : at + header_bytes + code_bytes]
        if found := {1: "assembly", 2: "bin"}.get(kind):
            suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
            entries.append(Entry(format=found, chip=f"sm_{number}{suffix}", size_bytes=code_bytes))
        if known is None and not flags & _COMPRESSED:
            known = describe(code, Elf(code)) if code.startswith(MAGIC) else describe_ptx(code)
        at += max(header_bytes + code_bytes, _ENTRY.size)
    chips = {entry.chip for entry in entries}
    return replace(
        known or Object(format=""),
        format="fatbin",
        chip=chips.pop() if len(chips) == 1 else None,
        entries=tuple(entries),
    )


def describe_ptx(data: bytes) -> Object | None:
    """Return the chip and the entry functions; ``None`` for what is not the text of a PTX module."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text or not (_VERSION.search(text) and _TARGET.search(text)):
        return None
    text = _COMMENT.sub(" ", text)
    target = _TARGET.search(text)
    kernels = tuple(Kernel(name=name) for name in _KERNEL.findall(text))
    return Object(format="assembly", chip=target[1] if target else None, kernels=kernels)


def chip(elf: Elf) -> str:
    """Return the chip in the ELF flags, whose layout changed with sm_100.

    ``f`` variants are not told apart from plain chips there.
    """
    if elf.abi_version >= _ABI_SINCE_SM_100:
        number, specific = elf.flags >> 8 & 0xFF, elf.flags & 0x8
    else:
        number, specific = elf.flags & 0xFF, elf.flags & 0x800
    return f"sm_{number}{'a' if specific else ''}"


def kernels(elf: Elf) -> list[Kernel]:
    """Return all entry functions, in section order."""
    facts = _facts(elf)
    reserved = _RESERVED_SHARED_BYTES if ".nv.shared.reserved.0" in elf.sections else 0
    found = []
    for section in elf.sections:
        name = section.removeprefix(".nv.info.")
        if not name or name == section:  # only entry functions have an .nv.info of their own and code
            continue
        if f".nv.constant0.{name}" not in elf.sections or f".text.{name}" not in elf.sections:
            continue
        own = facts.get(name, {})
        shared = elf.sections.get(f".nv.shared.{name}")
        found.append(
            Kernel(
                name=name,
                registers=own.get(_REGISTER_COUNT),
                shared_bytes=max(0, shared["sh_size"] - reserved) if shared else 0,
                spill_bytes=0 if own.get(_FRAME_SIZE) == 0 else None,
                code_bytes=elf.sections[f".text.{name}"]["sh_size"],
            )
        )
    return found


def _facts(elf: Elf) -> dict[str, dict[int, int]]:
    """Return, by function, the 4-byte values of ``.nv.info`` by attribute."""
    table = elf.symbol_table(".symtab")
    data, at = elf.bytes_of(".nv.info"), 0
    found: dict[str, dict[int, int]] = {}
    while at + 4 <= len(data):
        layout, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if layout != _INFO_HAS_SIZE:
            continue
        if value == 8 and attribute in (_FRAME_SIZE, _REGISTER_COUNT) and table is not None:
            symbol, number = struct.unpack_from("<II", data, at)
            if symbol < table.num_symbols():
                found.setdefault(table.get_symbol(symbol).name, {})[attribute] = number
        at += value
    return found
