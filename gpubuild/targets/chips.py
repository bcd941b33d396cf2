"""Chips: what the back ends ask about a chip, by kind; it goes when they ask the vendor themselves."""

# ruff: noqa: PLC0414 - exported again

from __future__ import annotations

from gpubuild.targets.amd import gfx_version as gfx_version
from gpubuild.targets.cpu import NATIVE as NATIVE
from gpubuild.targets.nvidia import ptx_asked as ptx_asked
from gpubuild.targets.nvidia import ptx_features as ptx_features
from gpubuild.targets.nvidia import sm_number as sm_number
from gpubuild.targets.registry import vendor


def check_chip(kind: str, chip: str, features: str = "", *, triple: str = "") -> None:
    """See ``Vendor.check``."""
    vendor(kind).check(chip, features, triple)


def subgroup_size(kind: str, chip: str, features: str = "") -> int:
    """See ``Vendor.subgroup_size``."""
    return vendor(kind).subgroup_size(chip, features)


def exchanges_lanes(kind: str, chip: str) -> bool:
    """See ``Vendor.exchanges_lanes``."""
    return vendor(kind).exchanges_lanes(chip)


def has_clusters(kind: str, chip: str) -> bool:
    """See ``Vendor.has_clusters``."""
    return vendor(kind).has_clusters(chip)


def multiplies_matrices(kind: str, chip: str) -> bool:
    """See ``Vendor.multiplies_matrices``."""
    return vendor(kind).multiplies_matrices(chip)
