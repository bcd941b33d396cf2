"""Target: what one kernel module is compiled for.

Sanitize: what the checked mode of the CPU device looks for.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from gpubuild.support.frozen import field, frozen


class Sanitize(StrEnum):
    """One kind of mistake in a kernel. The order is that of reports, keys and file formats."""

    BOUNDS = "bounds"
    RACE = "race"
    BARRIER = "barrier"
    UNINITIALIZED = "uninitialized"
    HOST_MEMORY = "host-memory"


FULL = "full"  # `debug: full`: with variables


@frozen
class Target:
    """One entry of ``targets:`` with every option settled.

    Params of steps have it whole, so that every field that takes part in comparison is part of keys.
    ``name`` is what the user calls it and names files: renaming a target recompiles nothing.
    ``kind`` is a word of ``targets.registry``, ``features`` an LLVM feature string such as ``+ptx80``
    or ``+sramecc,-xnack``. ``device_libs`` are absolute paths of ``.bc``/``.ll`` files linked into
    every module of this target; their content is an input of steps. ``passes`` replaces our pass
    pipeline for this target. ``flags`` are words of the target attribute's flags besides ``fast``, sorted;
    ``abi`` is the version of its code objects, empty for the vendor's default; ``assembler_options`` are
    arguments of the vendor's assembler. ``format`` is what the gpu.binary contains of this target, a word of
    ``vendor.Format``; empty: machine code, and assembly for later chips where the vendor has that. It is
    chosen when objects are bundled, so it is not a part of what compile steps are asked for.
    """

    SHARED = True  # see ``model.digest.encode``

    name: str = field(repr=False, compare=False)
    kind: str
    chip: str
    triple: str
    features: str = ""
    opt_level: int = 3
    fast_math: bool = False
    flags: tuple[str, ...] = ()
    abi: str = ""
    assembler_options: tuple[str, ...] = ()
    debug: bool | str = False  # or FULL
    device_libs: tuple[Path, ...] = field(default=(), repr=False, compare=False)
    passes: str = ""
    format: str = field(default="", repr=False, compare=False)
    sanitize: tuple[Sanitize, ...] = ()  # in the order of the enum


def cpu_triple(machine: str) -> str:
    """Return the LLVM triple of CPU kernels and host code for ``platform.machine()``."""
    return f"{machine}-unknown-linux-gnu"
