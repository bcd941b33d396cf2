"""Convergence: calls that lanes make together must not come to be made by some of them.

A function that exchanges values between lanes, or waits for others, is to be called by all lanes that
would call it in the source. LLVM's intrinsics say so themselves (``convergent``). Of a function that
uses them LLVM knows it from its attribute alone, which upstream's lowering does not give: a call of
one was moved into the branch that uses its result, where lanes outside the branch had nothing to give.
"""

from __future__ import annotations

from collections.abc import Collection

from llvmlite import binding

from gpubuild.engine.ir.workarounds import Workaround


def keep_calls_together(module: binding.ModuleRef, kernels: Collection[str]) -> None:
    """Mark all functions that ``module`` defines but ``kernels``, which nobody calls.

    The optimiser takes the mark away from those that do not need it. Functions of libraries carry
    their own: clang gives it to all functions of device code.
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
