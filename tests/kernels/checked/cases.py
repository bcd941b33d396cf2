"""Kernels that break the rules, and kernels that nearly do: what all of them have in common.

A line that ends in ``// bounds`` (or another kind) is reported as that and no other line is. Every
kernel gets the same memory: ``%g`` 100 floats, ``%m`` 16 x 8 floats, ``%n`` 64 i32, ``%c`` 256 bytes,
``%p`` 64 i1, ``%h`` is ``%g`` once more, and runs as two workgroups of 32 work-items unless it says
otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A kernel's body, and what the run must say beyond the kinds and lines of its marks."""

    body: str
    says: tuple[str, ...] = ()
    shared: str = ""  # type of workgroup memory %w, static
    private: str = ""  # type of private memory %q
    dynamic: int = 0
    blocks: int = 2
    items: int = 32
    known: bool = False  # whether the kernel says how many work-items a workgroup has
    tier: str = ""


def one_writes(body: str) -> str:
    """``body`` for the first work-item of the first workgroup only."""
    return "%both = arith.andi %first, %firstblock : i1\nscf.if %both {\n" + body.strip() + "\n}"


def alone(body: str, **more) -> Case:
    """A case of the first work-item of the first workgroup only."""
    return Case(one_writes(body), **more)


WG = "memref<32xf32, #gpu.address_space<workgroup>>"
WIDE = "memref<64xf32, #gpu.address_space<workgroup>>"
BYTES = "memref<?xi8, #gpu.address_space<workgroup>>"
