"""Workarounds of errors in MLIR that all GPU back ends need.

Convergence: all lanes must reach a function that shuffles values or waits for other lanes. LLVM's intrinsics
are convergent themselves. A function that uses them needs the attribute ``convergent``, which upstream's
lowering does not add: LLVM moved a call into the branch that used its result, so that lanes outside the
branch did not take part.
"""

from __future__ import annotations

from collections.abc import Collection

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.workarounds import Workaround


def keep_calls_together(module: llvm.Module, kernels: Collection[str]) -> None:
    """Mark all functions that ``module`` defines, except ``kernels``, as convergent.

    The optimiser removes the attribute where it is not needed. Functions of libraries have it: clang gives it
    to all functions of device code.
    """
    for function in module.functions:
        if not function.is_declaration and function.name not in kernels:
            function.add_function_attribute("convergent")


WORKAROUNDS = (
    Workaround(
        name="keep_calls_together",
        bug="the conversions of gpu do not mark functions that exchange values as convergent",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
