"""Chips: which names a compiler can be given, and what follows from a name.

LLVM only warns about a chip or feature it does not know and then compiles for something else, so
names are checked here, before any LLVM is loaded.
"""

from __future__ import annotations

import difflib
import re

from gpubuild.errors import UsageError
from gpubuild.targets.chip_names import (
    AARCH64_CHIPS,
    AARCH64_FEATURES,
    AMD_CHIPS,
    AMD_FEATURES,
    X86_CHIPS,
    X86_FEATURES,
)
from gpubuild.targets.target import Kind

NATIVE = "native"  # the CPU of this machine
# Chips that both LLVM 22 and ptxas 12.9 take, with the oldest PTX version LLVM emits for each.
_PTX_MINIMUM = {
    "sm_50": 40, "sm_52": 41, "sm_53": 42, "sm_60": 50, "sm_61": 50, "sm_62": 50, "sm_70": 60,
    "sm_72": 61, "sm_75": 63, "sm_80": 70, "sm_86": 71, "sm_87": 74, "sm_89": 78, "sm_90": 78,
    "sm_90a": 80, "sm_100": 86, "sm_100a": 86, "sm_100f": 88, "sm_101": 86, "sm_101a": 86,
    "sm_101f": 88, "sm_103": 88, "sm_103a": 88, "sm_103f": 88, "sm_120": 87, "sm_120a": 87,
    "sm_120f": 88, "sm_121": 88, "sm_121a": 88, "sm_121f": 88,
}  # fmt: skip
PTX_PREFERRED = 78  # shuffles with a mask and bar.red need more than what old chips default to
PTX_NEWEST = 88  # what ptxas 12.9 reads
_PTX_VERSIONS = frozenset(
    {32, 40, 41, 42, 43, 50, *range(60, 66), *range(70, 79), *range(80, PTX_NEWEST + 1)}
)
_PTX_FEATURE = re.compile(r"\+ptx(\d+)")
_NVIDIA_FEATURES = frozenset({f"ptx{v}" for v in _PTX_VERSIONS} | set(_PTX_MINIMUM))
_WAVE32_SINCE = 10  # GFX10 and later run 32 work-items in a subgroup unless told otherwise
_SWIZZLES_SINCE = 8
_LISTED = 12


def known_chips(kind: Kind, triple: str = "") -> frozenset[str]:
    """Every chip name that :func:`check_chip` takes for ``kind``."""
    if kind is Kind.NVVM:
        return frozenset(_PTX_MINIMUM)
    if kind is Kind.ROCDL:
        return AMD_CHIPS
    return (AARCH64_CHIPS if _is_aarch64(triple) else X86_CHIPS) | {NATIVE}


def known_features(kind: Kind, triple: str = "") -> frozenset[str]:
    """Every feature name, without sign, that :func:`check_chip` takes for ``kind``."""
    if kind is Kind.NVVM:
        return _NVIDIA_FEATURES
    if kind is Kind.ROCDL:
        return AMD_FEATURES
    return AARCH64_FEATURES if _is_aarch64(triple) else X86_FEATURES


def check_chip(kind: Kind, chip: str, features: str = "", *, triple: str = "") -> None:
    """Raise ``UsageError`` with suggestions unless the compiler knows ``chip`` and ``features``.

    ``features`` is an LLVM string such as ``+ptx80`` or ``+sramecc,-xnack``; ``triple`` matters
    for CPUs only (default: x86-64).
    """
    chips = known_chips(kind, triple)
    if chip not in chips:
        raise UsageError(f"unknown {_VENDOR[kind]} chip {chip!r}", hint=_suggest(chip, chips))
    known = known_features(kind, triple)
    for feature in filter(None, (f.strip() for f in features.split(","))):
        sign, name = feature[0], feature[1:]
        if sign not in "+-":
            raise UsageError(
                f"feature {feature!r} of {chip} has no sign",
                hint=f"write +{feature} to switch it on or -{feature} to switch it off",
            )
        if name not in known:
            raise UsageError(f"unknown feature {name!r} for {chip}", hint=_suggest(name, known))
    if kind is Kind.NVVM:
        _check_ptx(chip, features)


def ptx_asked(features: str) -> int:
    """The PTX version that ``features`` name, times ten; 0 when they name none."""
    return max((int(match[1]) for match in _PTX_FEATURE.finditer(features)), default=0)


def ptx_features(chip: str, features: str = "", *, needed: int = 0) -> str:
    """``features`` with a PTX version: the user's, or the oldest that serves the chip, ours and ``needed``.

    Old PTX is preferred because a driver reads any PTX up to its own version.
    """
    if _PTX_FEATURE.search(features):
        return features
    version = f"+ptx{max(_PTX_MINIMUM[chip], PTX_PREFERRED, needed)}"
    return f"{features},{version}" if features else version


def subgroup_size(kind: Kind, chip: str, features: str = "") -> int:
    """Work-items in a subgroup. CPUs act as NVIDIA GPUs do."""
    if kind is not Kind.ROCDL:
        return 32
    if "+wavefrontsize64" in features:
        return 64
    if "+wavefrontsize32" in features:
        return 32
    return 64 if gfx_version(chip)[0] < _WAVE32_SINCE else 32


def exchanges_lanes(kind: Kind, chip: str) -> bool:
    """Whether work-items of a subgroup can read each other's registers: all chips but GFX6 and 7."""
    return kind is not Kind.ROCDL or gfx_version(chip)[0] >= _SWIZZLES_SINCE


def has_clusters(kind: Kind, chip: str) -> bool:
    """Whether workgroups form clusters: NVIDIA chips from sm_90 on, and CPUs."""
    return kind is Kind.CPU or (kind is Kind.NVVM and sm_number(chip) >= _CLUSTERS_SINCE)


def multiplies_matrices(kind: Kind, chip: str) -> bool:
    """Whether an NVIDIA chip has the units of ``gpu.subgroup_mma_compute``."""
    return kind is Kind.NVVM and sm_number(chip) >= _MATRIX_UNITS_SINCE


def sm_number(chip: str) -> int:
    """The number in an NVIDIA chip's name: 90 of ``sm_90a``."""
    return int(re.sub(r"\D", "", chip) or 0)


def gfx_version(chip: str) -> tuple[int, int, int]:
    """Major, minor and stepping of an AMD chip; a generic one stands for the first it covers."""
    if generic := re.fullmatch(r"gfx(\d+)(?:-(\d+))?-generic", chip):
        return int(generic[1]), int(generic[2] or 0), 0
    digits = chip.removeprefix("gfx")
    return int(digits[:-2]), int(digits[-2], 16), int(digits[-1], 16)


_CLUSTERS_SINCE, _MATRIX_UNITS_SINCE = 90, 70
_VENDOR = {Kind.NVVM: "NVIDIA", Kind.ROCDL: "AMD", Kind.CPU: "CPU"}


def _check_ptx(chip: str, features: str) -> None:
    for match in _PTX_FEATURE.finditer(features):
        version, oldest = int(match[1]), _PTX_MINIMUM[chip]
        if version < oldest:
            raise UsageError(
                f"{chip} needs PTX {oldest // 10}.{oldest % 10} or newer, not {version // 10}.{version % 10}",
                hint=f"write +ptx{oldest}, or leave the PTX version out",
            )


def _is_aarch64(triple: str) -> bool:
    return triple.startswith(("aarch64", "arm64"))


def _suggest(name: str, known: frozenset[str]) -> str:
    close = difflib.get_close_matches(name.lower(), sorted(known), n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(close) + "?"
    family = sorted(known)
    shown = ", ".join(family[:_LISTED])
    return f"known names are {shown}" + (
        f" and {len(family) - _LISTED} more" if len(family) > _LISTED else ""
    )
