"""Hsaco: kernels of an AMD code object, from its metadata note (AMDGPU usage guide, code object v3 on)."""

from __future__ import annotations

from typing import Any

from gpubuild.inspect.elf import EM_AMDGPU, DamagedError, Elf
from gpubuild.inspect.records import Kernel, Object
from gpubuild.targets.amd import AMD

_OWNER = "AMDGPU"
_METADATA = 32  # NT_AMDGPU_METADATA
_REGISTER_BYTES = 4


def describe(data: bytes, elf: Elf | None) -> Object | None:
    """Return the target id, such as ``gfx90a:sramecc+:xnack-``, and the kernels; ``None`` for other files.

    The metadata of a relocatable object is not final, but is read, too.
    """
    if elf is None or elf.machine != EM_AMDGPU:
        return None
    found = metadata(elf)
    target = found.get("amdhsa.target")
    chip = target.removeprefix(f"{AMD.triple}--") if isinstance(target, str) else None
    entries = found.get("amdhsa.kernels", [])
    sizes = {name: size for name, _, size in elf.functions()}
    return Object(format="bin", chip=chip, kernels=tuple(_kernel(entry, sizes) for entry in entries))


def metadata(elf: Elf) -> dict[str, Any]:
    """Return the document of the metadata note; empty without one. Raises :class:`DamagedError`."""
    import msgpack

    for owner, kind, data in elf.notes():
        if owner == _OWNER and kind == _METADATA:
            document = msgpack.unpackb(data)
            if not isinstance(document, dict):
                raise DamagedError("the metadata of the AMD code object is not a map")
            return document
    return {}


def _kernel(entry: dict[str, Any], sizes: dict[str, int]) -> Kernel:
    def number(field: str) -> int | None:
        value = entry.get(field)
        return value if isinstance(value, int) else None

    spills = number(".vgpr_spill_count")
    return Kernel(
        name=str(entry[".name"]),
        registers=number(".vgpr_count"),
        shared_bytes=number(".group_segment_fixed_size"),
        spill_bytes=None if spills is None else spills * _REGISTER_BYTES,
        code_bytes=sizes.get(str(entry[".name"])),
    )
