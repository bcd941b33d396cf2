"""Values of a work-item that walks through a kernel: numbers, or symbols for what is not known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A value that is not known: the same for all work-items that come to the same symbol."""


OWN = Symbol()  # the one exception: what may be another value for each work-item, and each time
Value = int | Symbol
