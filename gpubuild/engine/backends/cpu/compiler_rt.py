"""compiler-rt: functions that LLVM's code generator may call, and which the C library does not have.

They stand in LLVM IR files under their own names and are hidden in the image, so that it needs nothing but
the C library. The linker drops those that are not called.
"""

from __future__ import annotations

import re
from importlib import resources

from llvmlite import binding

from gpubuild.engine.backends.cpu.libdevice_calls import needs_half_helpers
from gpubuild.engine.ir import llvm

_HALF, _WIDE = "half.ll", "wide.ll"
_WIDE_USE = re.compile(
    r"= (?:[su]div|[su]rem|[su]itofp|fpto[su]i) [^\n]*\bi(?:6[5-9]|[7-9]\d|1[01]\d|12[0-8])\b"
)


def link_half_conversions(module: binding.ModuleRef, triple: str) -> None:
    """Link conversions of 16-bit floats into ``module`` if it uses such. AArch64 has instructions."""
    if triple.startswith("x86_64") and needs_half_helpers(str(module)):
        _link(module, _HALF)


def link_wide_integers(module: binding.ModuleRef) -> None:
    """Link division and conversion of integers of 65 to 128 bits into ``module`` if it has such.

    LLVM expands what is wider.
    """
    if _WIDE_USE.search(str(module)):
        _link(module, _WIDE)


def _link(module: binding.ModuleRef, file: str) -> None:
    text = (resources.files("gpubuild.engine.backends.cpu") / file).read_text(encoding="utf-8")
    llvm.link_text(module, text, file)
