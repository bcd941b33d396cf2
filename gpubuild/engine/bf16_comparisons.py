"""Comparisons of bf16 in PTX: they have no ``.ftz``, which LLVM 22.1 writes where f32 is flushed.

ptxas refuses it (``Illegal modifier '.ftz' for instruction 'setp'``), so that with ``fast_math`` nothing
that compares bf16 could be assembled for sm_90 and later. Without it, subnormals are compared as they are.
"""

from __future__ import annotations

import re

_FLUSHED = re.compile(r"(\bsetp\.[\w.]+?)\.ftz(\.bf16(?:x2)?\b)")


def keep_subnormals(ptx: str) -> str:
    """``ptx`` with such comparisons written without the modifier."""
    return _FLUSHED.sub(r"\1\2", ptx) if ".ftz.bf16" in ptx else ptx
