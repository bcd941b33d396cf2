"""CPU image: the kernel table of a CPU object, read without loading it (``runtime/cpu/cpu_image.h``)."""

from __future__ import annotations

import struct

from gpubuild.inspect.elf import EM_AARCH64, EM_X86_64, DamagedError, Elf
from gpubuild.inspect.records import Kernel, Object
from gpubuild.targets.target import Sanitize, cpu_triple

SYMBOL = "gpubuild_cpu_image"
ABI = 8
TIERS = ("loop", "fibers", "fission")

_MAGIC = 0x55504342
_IMAGE = struct.Struct("<IIQQQQ")  # magic, abi, services, module, kernels, kernel count
_KERNEL = struct.Struct("<QQQIIQQQ3IIQ")  # name, run, item, tier, flags, shared bytes, …, slot bytes
_MOST_KERNELS = 1 << 16
_MACHINES = {EM_X86_64: "x86_64", EM_AARCH64: "aarch64"}


def describe(data: bytes, elf: Elf | None) -> Object | None:
    """Return the facts in the table; ``None`` for a file that exports none."""
    machine = _MACHINES.get(elf.machine) if elf else None
    if elf is None or machine is None or elf.address_of(SYMBOL) is None:
        return None
    module, kernels = table(elf)
    return Object(
        format="bin",
        triple=cpu_triple(machine),
        module=module,
        kernels=tuple(kernels),
        sanitize=checks(elf),
    )


def checks(elf: Elf) -> tuple[str, ...]:
    """Return what the kernels are checked for: all kernels of an image have the same flags."""
    address = elf.address_of(SYMBOL)
    if address is None:
        return ()
    _, abi, _, _, kernels_at, count = _IMAGE.unpack(elf.at(address, _IMAGE.size))
    if abi != ABI or not count:
        return ()
    flags = _KERNEL.unpack(elf.at(kernels_at, _KERNEL.size))[4]
    return tuple(kind.value for number, kind in enumerate(Sanitize) if flags >> (number + 1) & 1)


def table(elf: Elf) -> tuple[str | None, list[Kernel]]:
    """Return the module's name and its kernels; no kernels for a table of another version."""
    address = elf.address_of(SYMBOL)
    if address is None:
        return None, []
    magic, abi, _, module_at, kernels_at, count = _IMAGE.unpack(elf.at(address, _IMAGE.size))
    if magic != _MAGIC or count > _MOST_KERNELS:
        raise DamagedError(f"{SYMBOL} is not a kernel table")
    if abi != ABI:
        return None, []
    entries = elf.at(kernels_at, count * _KERNEL.size) if count else b""
    sizes = {address: size for _, address, size in elf.functions()}
    kernels = []
    for fields in _KERNEL.iter_unpack(entries):
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
