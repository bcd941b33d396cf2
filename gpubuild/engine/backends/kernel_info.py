"""Info: what is known of each kernel once it is assembled, as the JSON that inspection shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

INFO_SCHEMA = 1


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
