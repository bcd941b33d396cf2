"""Half: conversions of 16-bit floats that code generation may call, where the CPU has none.

They are compiler-rt's functions under their own names, hidden in the image, so that an image
needs nothing but the C library. The linker drops those that are not called.
"""

from __future__ import annotations

from importlib import resources

from llvmlite import binding

from gpubuild.engine.backends.cpu.libdevice_calls import needs_half_helpers
from gpubuild.engine.ir import llvm

_FILE = "half.ll"


def link_helpers(module: binding.ModuleRef, triple: str) -> None:
    """Link the conversions into ``module`` when it uses 16-bit floats. AArch64 has instructions."""
    if triple.startswith("x86_64") and needs_half_helpers(str(module)):
        text = (resources.files("gpubuild.engine.backends.cpu") / _FILE).read_text(encoding="utf-8")
        llvm.link_text(module, text, _FILE)
