"""Registry: the vendors, one line for each."""

from __future__ import annotations

from collections.abc import Callable

from gpubuild.targets.amd import AMD
from gpubuild.targets.cpu import CPU
from gpubuild.targets.nvidia import NVIDIA
from gpubuild.targets.spirv import SPIRV
from gpubuild.targets.vendor import Vendor

_VENDORS: dict[str, Vendor] = {
    NVIDIA.kind: NVIDIA,
    AMD.kind: AMD,
    SPIRV.kind: SPIRV,
    CPU.kind: CPU,
}


def kinds() -> tuple[str, ...]:
    """Return the kinds of targets, in the order of messages and documents."""
    return tuple(_VENDORS)


def vendors() -> tuple[Vendor, ...]:
    """Return all vendors, in the order of their kinds."""
    return tuple(_VENDORS.values())


def vendor(kind: str) -> Vendor:
    """Return the vendor of ``kind``. Raises ``KeyError``."""
    return _VENDORS[kind]


def of_name(name: str) -> Vendor | None:
    """Return the vendor that a well-known name of a target or chip implies."""
    return next((v for v in _VENDORS.values() if v.implied_by(name)), None)


def of_triple(triple: str | None) -> Vendor | None:
    """Return the vendor whose chips have ``triple``."""
    return next((v for v in _VENDORS.values() if v.owns(triple)), None) if triple else None


def register(added: Vendor) -> Callable[[], None]:
    """Add a vendor to this process, and to the processes that it forks; returns what removes it again.

    Raises ``ValueError`` for a kind that is there already.
    """
    if added.kind in _VENDORS:
        raise ValueError(f"kind {added.kind} has a vendor")
    _VENDORS[added.kind] = added
    return lambda: _VENDORS.__delitem__(added.kind)
