"""Kernels in the LLVM dialect that cannot be: MLIR's verifier knows nothing of kernels there."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import kernel_functions
from gpubuild.errors import Diagnostic, StepError

_RETURNS_NOTHING = "!llvm.func<void ("


def refuse_impossible(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for kernels without a body and for those that return a value.

    ptxas refuses them, the code generator for AMD GPUs ends the process, CPUs would drop the value.
    """
    found: list[Diagnostic] = []
    for kernels in contexts.gpu_modules(module):
        for op in kernel_functions(kernels):
            kind = str(op.attributes["function_type"])
            if not len(op.regions[0].blocks):
                reason = "has no body"
            elif op.name == "llvm.func" and not kind.startswith(_RETURNS_NOTHING):
                reason = "returns a value, and no launch could take it"
            else:
                continue
            found.append(about(op, f"kernel @{op.attributes['sym_name'].value} {reason}", source))
    if found:
        raise StepError(
            "the file has a kernel that cannot be launched",
            diagnostics=found,
            hint="give it a body, store its result through a pointer, or take the mark `gpu.kernel` off",
        )
