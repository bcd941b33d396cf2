"""Applicability of fission: functions with barriers, and operations that fission cannot handle."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    GROUP_IDS,
    ITEM_IDS,
    collective_ops,
    nested,
    operations,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import (
    CannotFissionError,
    each_workgroup_function,
)
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.query import callee

_FOREIGN = frozenset({"nvvm", "nvgpu", "rocdl", "amdgpu"})  # may wait, or name a work-item in their own way
_HARMLESS = (
    GROUP_IDS
    | COLLECTIVE_OPS
    | ITEM_IDS
    | {"gpu.printf", "gpu.return", "gpu.yield", "gpu.func", "gpu.subgroup_id", "gpu.module"}
)
_PRIVATE = frozenset({"memref.alloca", "llvm.alloca"})
_CALLS = frozenset({"func.call", "llvm.call"})
_NEEDS_ITEM = _CALLS | {"cf.assert"}
# Of an access out of bounds. They are rare: the ids are written right in front of each.
_REPORTS = frozenset({image_layout.CHECK_BOUNDS, image_layout.CHECK_VIEW})


def functions_with_barriers(module: ir.Operation) -> set[str]:
    """Return the names of the module's functions in which a work-item may wait, or that call such."""
    calls: dict[str, set[str]] = {}
    waiting: set[str] = set()
    for function in operations(module.regions[0].blocks[0]):
        if not len(function.regions):
            continue
        name = function.attributes["sym_name"].value
        inside = nested(function)
        calls[name] = {callee(op) for op in inside if op.name in _CALLS}
        if any(op.name in COLLECTIVE_OPS or _is_foreign(op) for op in inside):
            waiting.add(name)
    before = -1
    while before != len(waiting):
        before = len(waiting)
        waiting |= {name for name, callees in calls.items() if callees & waiting}
    return waiting


def refuse_unknown(module: ir.Module, _: CpuLowering) -> None:
    """Give up workgroup functions in which something is left that fission does not know."""
    kernels = kernel_module(module)
    waiting: list[set[str]] = []  # one set, made when it is needed

    def waits(function: str) -> bool:
        if not waiting:
            waiting.append(functions_with_barriers(kernels))
        return function in waiting[0]

    each_workgroup_function(kernels, lambda function: _refuse_unknown(function, waits))


def _refuse_unknown(function: ir.Operation, waits: Callable[[str], bool]) -> None:
    _refuse_allocations(function)
    blocks = function.regions[0].blocks
    if len(blocks) != 1:
        raise CannotFissionError("branches between blocks")
    for op in nested(function):
        if op.name in _PRIVATE and len(op.operands):
            raise CannotFissionError(f"private memory ({op.name})")
        if _is_foreign(op):
            raise CannotFissionError(op.name)
        if op.name in _CALLS and waits(callee(op)):
            raise CannotFissionError(f"a call of @{callee(op)}, which waits")
        if op.name == "gpu.barrier" and len(op.operands):
            raise CannotFissionError("a named barrier")


def _refuse_allocations(function: ir.Operation) -> None:
    """Refuse memory that each iteration would take from the stack."""
    inside = [inner for op in operations(function.regions[0].blocks[0]) for inner in nested(op)]
    allocations = [op for op in inside if op.name == "memref.alloca"]
    collective = collective_ops(inside, function) if allocations else set()
    for op in allocations:
        if op.parent.operation in collective:
            raise CannotFissionError(f"private memory (memref.alloca) in {op.parent.operation.name}")


def needs_item(op: ir.Operation) -> bool:
    """Return whether something in ``op`` reads ids from the record of the running work-item."""
    return any(inner.name in _NEEDS_ITEM and not is_report(inner) for inner in nested(op))


def is_report(op: ir.Operation) -> bool:
    """Return whether ``op`` reports an access that a check found to be out of bounds."""
    return op.name in _CALLS and callee(op) in _REPORTS


def _is_foreign(op: ir.Operation) -> bool:
    if op.name in COLLECTIVE_OPS:
        return False
    dialect = op.name.partition(".")[0]
    return dialect in _FOREIGN or (dialect == "gpu" and op.name not in _HARMLESS)
