"""NVIDIA's images: machine code (cubin), PTX text, and fat binaries.

The format of cubins is not published; these facts are from the output of ptxas 12.9. A cubin does not
record spills: only a kernel without a stack frame certainly has none.
"""

from __future__ import annotations

import re
import struct

from gpubuild.inspect.elf import EM_CUDA, Elf
from gpubuild.inspect.records import ImageFacts, Kernel

_INFO_HAS_SIZE = 4  # of an entry of .nv.info: the payload's size follows, else 2 bytes of value
_FRAME_SIZE = 0x11
_REGISTER_COUNT = 0x2F
_ABI_SINCE_SM_100 = 8
_RESERVED_SHARED_BYTES = 1024  # kept by the system at the start of workgroup memory, sm_90 and later
_FATBINARY = b"\x50\xed\x55\xba"
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VERSION = re.compile(r"^\s*\.version\s+\d", re.MULTILINE)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$]*)")


def describe(data: bytes, elf: Elf | None) -> ImageFacts | None:
    """What an image says; ``None`` for what is not NVIDIA's."""
    if elf is not None:
        if elf.machine != EM_CUDA:
            return None
        return ImageFacts(format="bin", chip=chip(elf), kernels=tuple(kernels(elf)))
    return ImageFacts(format="fatbin") if data.startswith(_FATBINARY) else describe_ptx(data)


def describe_ptx(data: bytes) -> ImageFacts | None:
    """Return the chip and the entry functions; ``None`` for what is not the text of a PTX module."""
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text or not (_VERSION.search(text) and _TARGET.search(text)):
        return None
    text = _COMMENT.sub(" ", text)
    target = _TARGET.search(text)
    kernels = tuple(Kernel(name=name) for name in _ENTRY.findall(text))
    return ImageFacts(format="assembly", chip=target[1] if target else None, kernels=kernels)


def chip(elf: Elf) -> str:
    """The chip in the ELF flags, whose layout changed with sm_100.

    ``f`` variants are not told apart from plain chips there.
    """
    if elf.abi_version >= _ABI_SINCE_SM_100:
        number, specific = elf.flags >> 8 & 0xFF, elf.flags & 0x8
    else:
        number, specific = elf.flags & 0xFF, elf.flags & 0x800
    return f"sm_{number}{'a' if specific else ''}"


def kernels(elf: Elf) -> list[Kernel]:
    """Every entry function, in section order."""
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
    """Per function, the 4-byte values of ``.nv.info`` by attribute."""
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
