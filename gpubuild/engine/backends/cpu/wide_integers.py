"""Wide: what code generation calls for integers of more than 64 bits.

They are compiler-rt's functions under their own names, hidden in the image, so that an image needs nothing
but the C library, to which they do not belong. The linker drops those that are not called.
"""

from __future__ import annotations

import re
from importlib import resources

from llvmlite import binding

from gpubuild.engine.ir import llvm

_FILE = "wide.ll"
_USE = re.compile(r"= (?:[su]div|[su]rem|[su]itofp|fpto[su]i) [^\n]*\bi(?:6[5-9]|[7-9]\d|1[01]\d|12[0-8])\b")


def link_helpers(module: binding.ModuleRef) -> None:
    """Link them into ``module`` if it divides or converts such integers. LLVM expands what is wider still."""
    if _USE.search(str(module)):
        text = (resources.files("gpubuild.engine.backends.cpu") / _FILE).read_text(encoding="utf-8")
        llvm.link_text(module, text, _FILE)
