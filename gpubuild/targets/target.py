"""Target: what one kernel module is compiled for.

Sanitize: what the checked mode of the CPU device looks for.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from gpubuild.support.frozen import frozen


class Sanitize(StrEnum):
    """One kind of mistake in a kernel. The order is that of reports, keys and file formats."""

    BOUNDS = "bounds"
    RACE = "race"
    BARRIER = "barrier"
    UNINITIALIZED = "uninitialized"


NVVM_TRIPLE = "nvptx64-nvidia-cuda"
ROCDL_TRIPLE = "amdgcn-amd-amdhsa"


class Kind(StrEnum):
    """The family of lowerings a target takes."""

    NVVM = "nvvm"
    ROCDL = "rocdl"
    CPU = "cpu"


# File-name suffixes of a compile step's outputs, per kind (design: artefacts under build/).
ASM_SUFFIX = {Kind.NVVM: "ptx", Kind.ROCDL: "s", Kind.CPU: "s"}
OBJECT_SUFFIX = {Kind.NVVM: "cubin", Kind.ROCDL: "hsaco", Kind.CPU: "so"}
RELOCATABLE_SUFFIX = {Kind.NVVM: "o", Kind.ROCDL: "bc", Kind.CPU: "o"}  # with `offload: clang` only

# Features that tell AMD code objects for one chip apart, in the order of a target id.
_TARGET_ID_FEATURES = ("sramecc", "xnack")
_NVIDIA_CHIP = re.compile(r"sm_\d+[af]?")
_AMD_CHIP = re.compile(r"gfx[0-9a-f]+((-\d+)?-generic)?")


@frozen
class Target:
    """One entry of ``targets:`` with every option settled.

    ``name`` is what the user calls it and names files; it takes no part in identity, so renaming
    a target recompiles nothing. ``features`` is an LLVM feature string such as ``+ptx80`` or
    ``+sramecc,-xnack``. ``device_libs`` are absolute paths of ``.bc``/``.ll`` files linked into
    every module of this target. ``passes`` replaces our pass pipeline for this target.
    """

    name: str
    kind: Kind
    chip: str
    triple: str
    features: str = ""
    opt_level: int = 3
    fast_math: bool = False
    debug: bool = False
    device_libs: tuple[Path, ...] = ()
    passes: str = ""
    sanitize: tuple[Sanitize, ...] = ()  # in the order of the enum


def kind_of_chip(name: str) -> Kind | None:
    """The kind that a well-known name implies: ``sm_90a`` NVVM, ``gfx90a`` ROCDL, ``cpu`` CPU."""
    if _NVIDIA_CHIP.fullmatch(name):
        return Kind.NVVM
    if _AMD_CHIP.fullmatch(name):
        return Kind.ROCDL
    if name == "cpu" or name.startswith(("x86-64", "armv8")):
        return Kind.CPU
    return None


def target_id(chip: str, features: str) -> str:
    """AMD's name of a processor with its settings, such as ``gfx90a:sramecc+:xnack-``."""
    signs = {f[1:]: f[0] for f in features.replace(" ", "").split(",") if f[:1] in ("+", "-")}
    return ":".join([chip, *(f"{name}{signs[name]}" for name in _TARGET_ID_FEATURES if name in signs)])


def cpu_triple(machine: str) -> str:
    """The LLVM triple of CPU kernels and host code for ``platform.machine()``."""
    return f"{machine}-unknown-linux-gnu"
