"""Find functions with barriers, inline them into kernels, and refuse what fission cannot handle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.structured_control_flow import has_branches, lift_branches
from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    GROUP_IDS,
    ITEM_IDS,
    all_operations,
    body_operations,
    collective_ops,
    named,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import (
    CannotFissionError,
    each_workgroup_function,
    workgroup_functions,
)
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import contains
from gpubuild.engine.ir.query import callee, symbol_name

_FOREIGN = frozenset({"nvvm", "nvgpu", "rocdl", "amdgpu"})  # may wait, or read an id
_HARMLESS = (
    GROUP_IDS
    | COLLECTIVE_OPS
    | ITEM_IDS
    | {"gpu.printf", "gpu.return", "gpu.yield", "gpu.func", "gpu.subgroup_id", "gpu.module"}
)
_PRIVATE = frozenset({"memref.alloca", "llvm.alloca"})
_CALLS = frozenset({"func.call", "llvm.call"})
_NEEDS_ITEM = _CALLS | {"cf.assert"}
# Calls that report an access out of bounds. They are rare: the ids are stored directly before each.
_REPORTS = frozenset({image_layout.CHECK_BOUNDS, image_layout.CHECK_VIEW})


def functions_with_barriers(module: ir.Operation) -> set[str]:
    """Return the names of the module's functions in which a work-item may wait, or that call such."""
    calls: dict[str, set[str]] = {}
    waiting: set[str] = set()
    for function in operations(module.regions[0].blocks[0]):
        if not len(function.regions):
            continue
        name = symbol_name(function)
        ops = nested(function)
        calls[name] = {callee(op) for op in ops if op.name in _CALLS}
        if any(op.name in COLLECTIVE_OPS or _is_foreign(op) for op in ops):
            waiting.add(name)
    before = -1
    while before != len(waiting):
        before = len(waiting)
        waiting |= {name for name, callees in calls.items() if callees & waiting}
    return waiting


def refuse_unknown(module: ir.Module, _: CpuLowering) -> None:
    """Give up workgroup functions with an operation that fission does not know."""
    kernels = kernel_module(module)
    waiting = cache(lambda: functions_with_barriers(kernels))  # few kernels call functions
    each_workgroup_function(kernels, lambda function: _refuse_unknown(function, waiting))


def _refuse_unknown(function: ir.Operation, waiting: Callable[[], set[str]]) -> None:
    ops = all_operations(function)
    allocations = [op for op in ops if op.name == "memref.alloca"]
    collective = collective_ops(ops, function) if allocations else set()
    for op in allocations:
        if op.parent.operation in collective:  # each iteration would use more of the stack
            raise CannotFissionError(f"private memory (memref.alloca) in {op.parent.operation.name}")
    if len(function.regions[0].blocks) != 1:
        raise CannotFissionError("branches between blocks")
    for op in ops:
        if op.name in _PRIVATE and len(op.operands):
            raise CannotFissionError(f"private memory ({op.name})")
        if _is_foreign(op):
            raise CannotFissionError(op.name)
        if op.name in _CALLS and callee(op) in waiting():
            raise CannotFissionError(f"a call of @{callee(op)}, which waits")
        if op.name == "gpu.barrier" and len(op.operands):
            raise CannotFissionError("a named barrier")


def needs_item(op: ir.Operation) -> bool:
    """Return whether code in ``op`` reads ids from the record of the running work-item."""
    return any(inner.name in _NEEDS_ITEM and not is_report(inner) for inner in nested(op))


def is_report(op: ir.Operation) -> bool:
    """Return whether ``op`` reports an access that a check found to be out of bounds."""
    return op.name in _CALLS and callee(op) in _REPORTS


def _is_foreign(op: ir.Operation) -> bool:
    if op.name in COLLECTIVE_OPS:
        return False
    dialect = op.name.partition(".")[0]
    return dialect in _FOREIGN or (dialect == "gpu" and op.name not in _HARMLESS)


_MOST = 500  # calls inlined into one kernel; the others stay calls
_LARGEST = 20_000  # ops of a kernel


def inline_barrier_calls(module: ir.Module, _: CpuLowering) -> None:
    """Inline calls of functions with barriers that do not call themselves into workgroup functions."""
    kernels = kernel_module(module)
    if any(contains(function, {"func.call"}) for function in workgroup_functions(kernels)):
        bodies = _inlinable(kernels, functions_with_barriers(kernels))
        each_workgroup_function(kernels, lambda function: _inline_calls(function, bodies))


def _inlinable(module: ir.Operation, waiting: set[str]) -> dict[str, ir.Operation]:
    """Return the functions in ``waiting`` that do not call themselves."""
    bodies = {
        name: op
        for op in operations(module.regions[0].blocks[0])
        if op.name == "func.func" and len(op.regions[0].blocks) and (name := symbol_name(op)) in waiting
    }
    calls = {name: named(body, {"func.call"}) for name, body in bodies.items()}
    callees = {name: {callee(call) for call in found} & waiting for name, found in calls.items()}
    return {name: body for name, body in bodies.items() if not _calls_itself(name, callees)}


def _inline_calls(kernel: ir.Operation, bodies: Mapping[str, ir.Operation]) -> None:
    """Replace each call of one of these functions.

    Raises ``CannotFissionError`` for one with branches that cannot be made structured control flow.
    """
    lifted: dict[str, ir.Operation] = {}  # copies without branches
    try:
        work = _calls(kernel, bodies)
        size = len(nested(kernel))
        for _ in range(_MOST):
            if not work or size > _LARGEST:
                return
            call = work.pop()
            name = callee(call)
            if name not in lifted and has_branches(bodies[name]):
                lifted[name] = bodies[name].clone(ir.InsertionPoint(bodies[name])).operation
                lifted[name].attributes["sym_name"] = ir.StringAttr.get(f"{name}.lifted")
                lift_branches(lifted[name])
            function = lifted.get(name, bodies[name])
            size += len(nested(function))
            for op in _inline(call, function.regions[0].blocks[0]):
                work += _calls(op, bodies)
    finally:
        for copy in lifted.values():
            copy.erase()


def _calls(op: ir.Operation, bodies: Mapping[str, ir.Operation]) -> list[ir.Operation]:
    return [call for call in named(op, {"func.call"}) if callee(call) in bodies]


def _calls_itself(name: str, callees: dict[str, set[str]]) -> bool:
    """Return whether a function calls itself, directly or not, so that inlining would not end."""
    reached: set[str] = set()
    work = [name]
    while work:
        new = callees.get(work.pop(), set()) - reached
        reached |= new
        work += new
    return name in reached


def _inline(call: ir.Operation, body: ir.Block) -> list[ir.Operation]:
    """Replace ``call`` by a copy of ``body``; return the operations of the copy."""
    emit = Emitter(call)
    values: dict[ir.Value, ir.Value] = dict(zip(body.arguments, call.operands, strict=True))
    made = []
    for op in body_operations(body):
        new = emit.copy(op)
        made.append(new)
        for inner in nested(new):
            for index, operand in enumerate(list(inner.operands)):
                if operand in values:
                    inner.operands[index] = values[operand]
        values.update(zip(op.results, new.results, strict=True))
    for old, value in zip(call.results, terminator(body).operands, strict=True):
        old.replace_all_uses_with(values.get(value, value))
    call.erase()
    return made
