"""Functions in the LLVM dialect."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu.state import CpuLowering
from gpubuild.engine.ir.query import symbol_name

# Replaces an operation; it gets the function around it as well.
Rewrite: TypeAlias = Callable[[ir.Operation, ir.Operation, CpuLowering], None]


def functions(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the functions with a body of a gpu.module."""
    return [
        op.operation
        for op in kernels.regions[0].blocks[0].operations
        if op.operation.name == "llvm.func" and has_body(op.operation)
    ]


def has_body(function: ir.Operation) -> bool:
    """Return whether ``function`` is more than a declaration."""
    return len(function.regions[0].blocks) > 0


def erase_declarations(kernels: ir.Operation, names: Container[str]) -> None:
    """Erase the functions without a body of these names, which nothing calls any more."""
    for op in list(kernels.regions[0].blocks[0].operations):
        function = op.operation
        if function.name == "llvm.func" and symbol_name(function) in names and not has_body(function):
            function.erase()


def work_item(function: ir.Operation) -> ir.Value:
    """Return the last argument of ``function``, of type ``gb_cpu_item *``."""
    arguments = function.regions[0].blocks[0].arguments
    return arguments[len(arguments) - 1]
