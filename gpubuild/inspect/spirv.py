"""SPIR-V modules: their version and kernels."""

from __future__ import annotations

from gpubuild.inspect.elf import DamagedError, Elf
from gpubuild.inspect.records import Kernel, Object
from gpubuild.support.spirv import MAGIC, read_module


def describe(data: bytes, elf: Elf | None) -> Object | None:
    """Return the version of SPIR-V as chip, and the kernels; ``None`` for other files."""
    if elf is not None or not data.startswith(MAGIC):
        return None
    try:
        module = read_module(data)
    except ValueError as error:
        raise DamagedError(str(error)) from error
    kernels = tuple(
        Kernel(
            name=k.name,
            shared_bytes=k.workgroup_bytes,
            parameters=k.parameters,
            workgroup_size=k.workgroup_size,
            subgroup_size=k.subgroup_size,
        )
        for k in module.kernels
    )
    return Object(format="bin", chip=f"spirv{module.version}", kernels=kernels)
