"""CPU image: the kernel table of a CPU object, read without loading it (``runtime/cpu_image.h``)."""

from __future__ import annotations

import struct

from gpubuild.inspect.elf import DamagedError, Elf
from gpubuild.inspect.records import Kernel
from gpubuild.targets.target import Sanitize

SYMBOL = "gpubuild_cpu_image"
ABI = 8
TIERS = ("loop", "fibers", "fission")

_MAGIC = 0x55504342
_IMAGE = struct.Struct("<IIQQQQ")  # magic, abi, services, module, kernels, kernel count
_KERNEL = struct.Struct("<QQQIIQQQ3IIQ")  # name, run, item, tier, flags, shared bytes, …, slot bytes
_MOST_KERNELS = 1 << 16


def is_cpu_image(elf: Elf) -> bool:
    """Whether the shared object exports our table."""
    return elf.address_of(SYMBOL) is not None


def checks(elf: Elf) -> tuple[str, ...]:
    """What the kernels are checked for: the flags of the first, as those of one image are the same."""
    address = elf.address_of(SYMBOL)
    if address is None:
        return ()
    _, abi, _, _, kernels_at, count = _IMAGE.unpack(elf.at(address, _IMAGE.size))
    if abi != ABI or not count:
        return ()
    flags = _KERNEL.unpack(elf.at(kernels_at, _KERNEL.size))[4]
    return tuple(kind.value for number, kind in enumerate(Sanitize) if flags >> (number + 1) & 1)


def describe(elf: Elf) -> tuple[str | None, list[Kernel]]:
    """The module's name and its kernels; no kernels when the table is of another version."""
    address = elf.address_of(SYMBOL)
    if address is None:
        return None, []
    magic, abi, _, module_at, kernels_at, count = _IMAGE.unpack(elf.at(address, _IMAGE.size))
    if magic != _MAGIC or count > _MOST_KERNELS:
        raise DamagedError(f"{SYMBOL} is not a kernel table")
    if abi != ABI:
        return None, []
    table = elf.at(kernels_at, count * _KERNEL.size) if count else b""
    sizes = {address: size for _, address, size in elf.functions()}
    kernels = []
    for fields in _KERNEL.iter_unpack(table):
        name_at, tier, shared_bytes = fields[0], fields[3], fields[5]
        kernels.append(
            Kernel(
                name=elf.text_at(name_at),
                shared_bytes=shared_bytes,
                tier=TIERS[tier] if tier < len(TIERS) else None,
                # Of the code that runs a workgroup, and of that for one work-item.
                code_bytes=sum(sizes.get(address, 0) for address in fields[1:3]) or None,
            )
        )
    return elf.text_at(module_at), kernels
