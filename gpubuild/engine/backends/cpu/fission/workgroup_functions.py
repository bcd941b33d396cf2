"""Workgroup functions: copies of kernels that fission turns into code for a whole workgroup.

A kernel is left unchanged, for the fibers tier. The copy stands in front of it in its module, and after
that come the passes of fission, each of which changes all copies. Where one of them cannot go on, the copy
goes and the kernel has an attribute that says why.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import operations
from gpubuild.engine.backends.cpu.state import NO_FISSION, WORKGROUP_OF, owner_of_context_array
from gpubuild.engine.ir.query import symbol_name

SUFFIX = ".workgroup"


class CannotFissionError(Exception):
    """Why a kernel cannot be cut at its barriers; the text ends up as the tier's reason."""


def workgroup_functions(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the workgroup functions of a gpu.module."""
    return [op for op in operations(kernels.regions[0].blocks[0]) if WORKGROUP_OF in op.attributes]


def each_workgroup_function(kernels: ir.Operation, change: Callable[[ir.Operation], None]) -> None:
    """Let ``change`` work on each workgroup function; one that it cannot handle goes."""
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
    """Return how many work-items a workgroup of the kernel can have."""
    if "known_block_size" not in function.attributes:
        return image_layout.MAX_BLOCK
    items = 1
    for extent in ir.DenseI32ArrayAttr(function.attributes["known_block_size"]):
        items *= extent
    return min(max(items, 1), image_layout.MAX_BLOCK)
