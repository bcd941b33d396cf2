"""Sanitize: what the checked mode of the CPU device looks for."""

from __future__ import annotations

from enum import StrEnum


class Sanitize(StrEnum):
    """One kind of mistake in a kernel. The order is that of reports, keys and file formats."""

    BOUNDS = "bounds"
    RACE = "race"
    BARRIER = "barrier"
    UNINITIALIZED = "uninitialized"
