"""Workgroup functions: copies of kernels that fission turns into code for a whole workgroup.

The kernel itself stays unchanged, for the fibers tier. Each pass of fission changes all copies. Where a
pass cannot handle a copy, it erases it and sets an attribute with the reason on the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import operations
from gpubuild.engine.backends.cpu.state import NO_FISSION, WORKGROUP_OF, owner_of_context_array
from gpubuild.engine.ir.query import symbol_name

SUFFIX = ".workgroup"


class CannotFissionError(Exception):
    """Fission cannot handle a kernel; the text becomes part of the tier's reason."""


def workgroup_functions(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the workgroup functions of a gpu.module."""
    return [op for op in operations(kernels.regions[0].blocks[0]) if WORKGROUP_OF in op.attributes]


def each_workgroup_function(kernels: ir.Operation, change: Callable[[ir.Operation], None]) -> None:
    """Apply ``change`` to each workgroup function; erase one that it cannot handle."""
    reasons: dict[str, str] = {}  # by kernel
    abandoned: set[str] = set()
    for function in workgroup_functions(kernels):
        try:
            change(function)
            continue
        except CannotFissionError as error:
            why = str(error)
        except RecursionError:
            why = "control flow that is nested too deeply"
        reasons[function.attributes[WORKGROUP_OF].value] = why
        abandoned.add(symbol_name(function))
        function.erase()
    if not abandoned:
        return
    for op in list(operations(kernels.regions[0].blocks[0])):
        name = symbol_name(op)
        if op.name == "memref.global" and owner_of_context_array(name) in abandoned:
            op.erase()
        elif op.name == "gpu.func" and name in reasons:
            op.attributes[NO_FISSION] = ir.StringAttr.get(reasons[name])


def most_items(function: ir.Operation) -> int:
    """Return the largest number of work-items that a workgroup of the kernel can have."""
    if "known_block_size" not in function.attributes:
        return image_layout.MAX_BLOCK
    items = int(prod(ir.DenseI32ArrayAttr(function.attributes["known_block_size"])))
    return min(max(items, 1), image_layout.MAX_BLOCK)
