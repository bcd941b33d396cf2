"""NVIDIA's math library libdevice, linked from bitcode with the precision a target asks for."""

from __future__ import annotations

import re

from llvmlite import binding

from gpubuild.engine.ir import llvm
from gpubuild.targets.target import Target

PREFIX = "__nv_"  # of all its functions
_QUESTION = re.compile(r'^(@[-\w.$"]+) = [^\n]*c"(__CUDA_\w+)\\00"', re.MULTILINE)
_ASKED = r"call i32 @__nvvm_reflect\(ptr (?:nonnull )?(?:noundef )?{name}\)[^\n]*"


def link_libdevice(module: binding.ModuleRef, data: bytes, target: Target) -> binding.ModuleRef:
    """Link the functions that ``module`` uses and return the linked module.

    The library asks ``__nvvm_reflect`` whether to flush denormals and whether square roots must be correctly
    rounded. LLVM always answers the second with no, so both are answered here: IEEE results unless the target
    has the flag ``ftz`` or fast mathematics.
    """
    llvm.link_library(module, data, "libdevice")
    answers = {"__CUDA_FTZ": int("ftz" in target.flags), "__CUDA_PREC_SQRT": int(not target.fast_math)}
    text = str(module)
    resolved = text
    for match in _QUESTION.finditer(text):
        if match[2] in answers:
            asked = re.compile(_ASKED.format(name=re.escape(match[1])))
            resolved = asked.sub(f"add i32 {answers[match[2]]}, 0", resolved)
    if resolved == text:
        return module
    return llvm.parse_assembly(resolved, llvm.new_context(), name="LLVM IR with libdevice")
