"""Faults of tinygrad's emulator (0.13.0, August 2026), which make a kernel's result tell nothing.

What else it gets wrong is mended or done in this folder: ``emulator.py``, ``special.py``,
``vector_memory.py``.
"""

from __future__ import annotations

from collections.abc import Collection

# The ISA: factors are the lower 24 bits, with a sign. LLVM leaves anything in the other eight.
_NO_SIGN = "takes factors of 24 bits for ones of 32"
_FAULTS = {
    "v_mul_i32_i24_e32": _NO_SIGN,
    "v_mul_i32_i24_e64": _NO_SIGN,
    "v_mul_hi_i32_i24_e32": _NO_SIGN,
    "v_mul_hi_i32_i24_e64": _NO_SIGN,
    "v_fmac_f64_e64": "adds nothing",  # the ISA: D = S0 * S1 + D; the form of 4 bytes is right
}


def fault_among(names: Collection[str]) -> str:
    """What is wrong with an instruction of ``names``; empty when nothing is known."""
    return next((f"{name} {_FAULTS[name]}" for name in sorted(names) if name in _FAULTS), "")
