"""Info: what the assembler tells about each kernel, as the JSON that inspection shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

INFO_SCHEMA = 1

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelInfo:
    """Resources of one kernel; ``None`` where the format does not tell.

    ``registers`` are per work-item (vector registers on AMD), ``shared_bytes`` the static
    workgroup memory, ``spill_bytes`` what was stored to memory for want of registers. ``parameters``
    is how many a launch must pass; the runtime finds it right behind the name (runtime/core/image.c).
    """

    name: str
    parameters: int | None = None
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    tier: str | None = None  # CPU only: how work-items are run
    tier_reason: str | None = None


def info_json(kernels: Sequence[KernelInfo]) -> str:
    """The ``info`` output of a compile step (docs/design/architecture.md)."""
    document = {"schema": INFO_SCHEMA, "kernels": [asdict(k) for k in kernels]}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def with_parameters(kernels: Sequence[KernelInfo], counts: Mapping[str, int]) -> list[KernelInfo]:
    """The same kernels, with the numbers of their parameters by name."""
    return [replace(kernel, parameters=counts.get(kernel.name)) for kernel in kernels]


def parse_ptxas(output: str, names: Sequence[str]) -> list[KernelInfo]:
    """What ``ptxas -v`` printed, for the kernels ``names`` in that order."""
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in output.splitlines():
        if match := _ENTRY.search(line) or _PROPERTIES.search(line):
            name = match[1]
        elif match := _SPILLS.search(line):
            found.setdefault(name, {})["spill_bytes"] = int(match[1])
        if match := _REGISTERS.search(line):
            values = found.setdefault(name, {})
            values["registers"] = int(match[1])
            shared = _SHARED.search(line)
            values["shared_bytes"] = int(shared[1]) if shared else 0
    return [
        KernelInfo(
            name=n,
            registers=found.get(n, {}).get("registers"),
            shared_bytes=found.get(n, {}).get("shared_bytes"),
            spill_bytes=found.get(n, {}).get("spill_bytes"),
        )
        for n in names
    ]


def parse_amd_assembly(text: str, names: Sequence[str]) -> list[KernelInfo]:
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
    return [_amd_kernel(name, found.get(name, {})) for name in names]


def _amd_kernel(name: str, fields: dict[str, str]) -> KernelInfo:
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
