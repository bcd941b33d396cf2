"""AMD ops: what chips lack though upstream's conversion takes the operation, so that LLVM ends the process.

Found by compiling each for a chip of every generation with LLVM 22.
"""

from __future__ import annotations

import re

from mlir import ir

_LARGEST = "amdgpu.raw_buffer_atomic_fmax"
_WAIT = "amdgpu.memory_counter_wait"


def chip_refusal(op: ir.Operation, chip: str) -> str:
    """Why AMD's ``chip`` cannot do ``op``, or an empty string."""
    if op.name == _LARGEST:
        kind = str(op.operands[0].type)
        if not re.fullmatch(_atomic_maxima(kind), chip):
            return f"'{op.name}' of {kind} is an instruction that {chip} does not have"
    if op.name == _WAIT and "exp" in op.attributes and chip.startswith("gfx125"):
        return f"'{op.name}' of exports: {chip} has no counter of them; leave out `exp`"
    return ""


def _atomic_maxima(kind: str) -> str:
    """The chips whose buffer instructions have the atomic maximum of ``kind``, as an expression."""
    if kind == "f64":
        return r"gfx90a|gfx9[45]\w|gfx10\w\w|gfx125\w"
    return r"gfx1\d\w\w"
