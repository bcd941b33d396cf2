"""Code object: an AMD hsaco as a loader sees it, after LLVM's AMDGPUUsage ("Code Object")."""

from __future__ import annotations

import ctypes
import io
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

_METADATA = 32  # NT_AMDGPU_METADATA
_DESCRIPTOR_BYTES = 64
_RESERVED = (slice(12, 16), slice(24, 44), slice(60, 64))
_RELATIVE64 = 13  # R_AMDGPU_RELATIVE64
_ABS64 = 3  # R_AMDGPU_ABS64
_PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One of ``.args``; ``kind`` is its ``.value_kind``, sizes in bytes."""

    kind: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel's descriptor and metadata. ``entry`` is an address in this process."""

    name: str
    entry: int
    group_bytes: int
    private_bytes: int  # per work-item
    kernarg_bytes: int
    rsrc1: int
    rsrc2: int
    rsrc3: int
    properties: int
    preload: int
    arguments: tuple[Argument, ...]
    metadata: Mapping[str, Any]

    @property
    def lanes(self) -> int:
        return 32 if self.properties >> 10 & 1 else 64


@dataclass(frozen=True, kw_only=True)
class CodeObject:
    """Loaded into memory of this process, which ``memory`` keeps."""

    memory: mmap.mmap
    base: int
    size: int
    target: str  # such as gfx90a:xnack-
    kernels: Mapping[str, Kernel]
    symbols: Mapping[str, int]
    formats: tuple[str, ...]  # amdhsa.printf

    @classmethod
    def load(cls, data: bytes) -> CodeObject:
        """Raises ``ValueError`` for what a loader would refuse."""
        elf = ELFFile(io.BytesIO(data))
        if elf.header["e_machine"] not in ("EM_AMDGPU", 224):
            raise ValueError(f"no AMD code object: machine {elf.header['e_machine']}")
        segments = [s for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        size = -(-max(s["p_vaddr"] + s["p_memsz"] for s in segments) // _PAGE) * _PAGE
        memory = mmap.mmap(-1, size + _PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for segment in segments:
            memory[segment["p_vaddr"] : segment["p_vaddr"] + segment["p_filesz"]] = segment.data()
        table = elf.get_section_by_name(".dynsym")
        symbols = {s.name: base + s["st_value"] for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
        for section in elf.iter_sections():
            if isinstance(section, RelocationSection) and section["sh_flags"] & 2:
                for relocation in section.iter_relocations():
                    _relocate(memory, base, relocation, table)
        found = _metadata(elf)
        kernels = {}
        for entry in found["amdhsa.kernels"]:
            at = symbols[entry[".symbol"]] - base
            kernels[entry[".name"]] = _kernel(memory[at : at + _DESCRIPTOR_BYTES], base + at, entry)
        return cls(
            memory=memory, base=base, size=size, target=found["amdhsa.target"].rpartition("--")[2],
            kernels=kernels, symbols=symbols, formats=tuple(found.get("amdhsa.printf", ())),
        )  # fmt: skip


def _relocate(memory: mmap.mmap, base: int, relocation: Any, table: Any) -> None:
    kind, addend = relocation["r_info_type"], relocation["r_addend"]
    if kind == _RELATIVE64:
        value = base + addend
    elif kind == _ABS64:
        symbol = table.get_symbol(relocation["r_info_sym"])
        if symbol["st_shndx"] == "SHN_UNDEF":
            raise ValueError(f"{symbol.name} is defined nowhere")
        value = base + symbol["st_value"] + addend
    else:
        raise ValueError(f"no loader knows relocations of kind {kind}")
    struct.pack_into("<Q", memory, relocation["r_offset"], value)


def _metadata(elf: ELFFile) -> dict[str, Any]:
    for section in elf.iter_sections():
        if section["sh_type"] == "SHT_NOTE":
            for note in section.iter_notes():
                if note["n_name"] == "AMDGPU" and note["n_type"] in (_METADATA, "NT_AMDGPU_METADATA"):
                    return msgpack.unpackb(note["n_descdata"])
    raise ValueError("no metadata")


def _kernel(descriptor: bytes, at: int, entry: Mapping[str, Any]) -> Kernel:
    group, private, kernarg = struct.unpack_from("<3I", descriptor)
    (start,) = struct.unpack_from("<q", descriptor, 16)
    rsrc3, rsrc1, rsrc2 = struct.unpack_from("<3I", descriptor, 44)
    properties, preload = struct.unpack_from("<2H", descriptor, 56)
    for reserved in _RESERVED:
        if any(descriptor[reserved]):
            raise ValueError(f"{entry['.name']}: bytes of the descriptor that must be zero are not")
    told = (
        entry[".group_segment_fixed_size"],
        entry[".private_segment_fixed_size"],
        entry[".kernarg_segment_size"],
    )
    if told != (group, private, kernarg):
        raise ValueError(
            f"{entry['.name']}: the metadata says {told}, the descriptor {(group, private, kernarg)}"
        )
    if (at + start) % 256:
        raise ValueError(f"{entry['.name']}: code must begin at a multiple of 256 bytes")
    arguments = tuple(
        Argument(kind=a[".value_kind"], offset=a[".offset"], size=a[".size"]) for a in entry.get(".args", ())
    )
    kernel = Kernel(
        name=entry[".name"], entry=at + start, group_bytes=group, private_bytes=private,
        kernarg_bytes=kernarg, rsrc1=rsrc1, rsrc2=rsrc2, rsrc3=rsrc3, properties=properties,
        preload=preload, arguments=arguments, metadata=entry,
    )  # fmt: skip
    if kernel.lanes != entry[".wavefront_size"]:
        raise ValueError(f"{kernel.name}: the metadata and the descriptor name other sizes of a wavefront")
    return kernel
