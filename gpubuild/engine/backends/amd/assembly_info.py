"""What the metadata in AMD assembly says about kernels: registers, spills and workgroup memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpubuild.engine.backends.kernel_info import KernelInfo


def parse_assembly(text: str, names: Sequence[str]) -> list[KernelInfo]:
    """What the ``amdhsa.kernels`` metadata at the end of LLVM's assembly says of ``names``."""
    _, _, metadata = text.partition(".amdgpu_metadata")
    found: dict[str, dict[str, str]] = {}
    entry: dict[str, str] = {}
    for line in metadata.partition(".end_amdgpu_metadata")[0].splitlines():
        # A kernel's own fields are indented by four; its arguments' fields by more.
        if line.startswith("  - "):
            entry = {}
        if match := re.match(r"(?:  - |    )\.(\w+): +(.*)$", line):
            entry[match[1]] = match[2].strip("'\"")
            if match[1] == "name":
                found[entry["name"]] = entry
    return [_kernel(name, found.get(name, {})) for name in names]


def _kernel(name: str, fields: dict[str, str]) -> KernelInfo:
    def number(field: str) -> int | None:
        value = fields.get(field, "")
        return int(value) if value.isdigit() else None

    spills = number("vgpr_spill_count")
    return KernelInfo(
        name=name,
        registers=number("vgpr_count"),
        shared_bytes=number("group_segment_fixed_size"),
        spill_bytes=None if spills is None else 4 * spills,  # a register of a lane has 4 bytes
    )
