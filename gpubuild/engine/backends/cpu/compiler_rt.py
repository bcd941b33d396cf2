"""Link functions that LLVM's code generator for CPUs may call, and that the C library lacks.

They are LLVM IR, and hidden in the image, so that it needs only the C library. The linker drops those without
a call.
"""

from __future__ import annotations

import re
from importlib import resources

from gpubuild.engine.ir import llvm

_HALF = "half.ll"


def needs_half_helpers(text: str) -> bool:
    """Return whether LLVM IR uses 16-bit floats; basic x86-64 converts them by calls of compiler-rt."""
    return re.search(r"\b(?:half|bfloat)\b", text) is not None


def link_half_conversions(module: llvm.Module, triple: str) -> None:
    """Link conversions of 16-bit floats into ``module`` if it uses them. AArch64 has instructions."""
    if triple.startswith("x86_64") and needs_half_helpers(str(module)):
        text = (resources.files("gpubuild.engine.backends.cpu") / _HALF).read_text(encoding="utf-8")
        llvm.link_text(module, text, _HALF)
