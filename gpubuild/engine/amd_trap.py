"""Traps on GFX 11.0: kept out of kernels, where LLVM 22's code for them loses code.

These chips ignore `s_trap 2`, and LLVM writes a halting loop instead. Where the trap ends a block, LLVM
skips the blocks after it, and then stops with "Unsupported instruction" (llvm/llvm-project#208912; mended
after 22.1.8). A function of one block has no others to skip.
"""

from __future__ import annotations

import re

from llvmlite import binding

from gpubuild.engine import llvm
from gpubuild.engine.chips import gfx_version

_CALL = re.compile(r"\bcall void @llvm\.trap\(\)(?: #\d+)?")
_FUNCTION = "gpubuild_trap"
_DEFINITION = f"""
define internal void @{_FUNCTION}() cold noinline norecurse noreturn nounwind {{
  call void @llvm.trap()
  unreachable
}}
"""


def move_out(module: binding.ModuleRef, chip: str) -> binding.ModuleRef:
    """``module`` for ``chip``, its traps in a function of their own where the chip needs that."""
    text = str(module)
    if gfx_version(chip)[:2] != (11, 0) or not _CALL.search(text):
        return module
    text = _CALL.sub(f"call void @{_FUNCTION}()", text) + _DEFINITION
    return llvm.parse_assembly(text, llvm.new_context(), name="LLVM IR with traps moved")
