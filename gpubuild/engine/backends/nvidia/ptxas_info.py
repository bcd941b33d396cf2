"""What ``ptxas -v`` prints about kernels: registers, spills and workgroup memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpubuild.engine.backends.kernel_info import KernelInfo

_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


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
