"""Link functions that LLVM's code generator for CPUs may call, and that the C library lacks.

They are LLVM IR files, and hidden in the image, so that it needs only the C library. The linker drops those
without a call.
"""

from __future__ import annotations

import re
from importlib import resources

from gpubuild.engine.ir import llvm


def needs_half_helpers(text: str) -> bool:
    """Return whether LLVM IR uses 16-bit floats; basic x86-64 converts them by calls of compiler-rt."""
    return re.search(r"\b(?:half|bfloat)\b", text) is not None


_HALF, _WIDE = "half.ll", "wide.ll"
_WIDE_USE = re.compile(
    r"= (?:[su]div|[su]rem|[su]itofp|fpto[su]i) [^\n]*\bi(?:6[5-9]|[7-9]\d|1[01]\d|12[0-8])\b"
)


def link_half_conversions(module: llvm.Module, triple: str) -> None:
    """Link conversions of 16-bit floats into ``module`` if it uses them. AArch64 has instructions."""
    if triple.startswith("x86_64") and needs_half_helpers(str(module)):
        _link(module, _HALF)


def link_wide_integers(module: llvm.Module) -> None:
    """Link division and conversion of integers of 65 to 128 bits into ``module`` if it uses them.

    LLVM expands those of wider integers.
    """
    if _WIDE_USE.search(str(module)):
        _link(module, _WIDE)


def _link(module: llvm.Module, file: str) -> None:
    text = (resources.files("gpubuild.engine.backends.cpu") / file).read_text(encoding="utf-8")
    llvm.link_text(module, text, file)
