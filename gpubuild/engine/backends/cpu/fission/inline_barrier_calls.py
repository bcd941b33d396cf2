"""Inlining of functions with barriers into the kernels that call them."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import functions_with_barriers
from gpubuild.engine.backends.cpu.fission.lift_control_flow import has_branches, lift_branches
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import (
    each_workgroup_function,
    workgroup_functions,
)
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import contains
from gpubuild.engine.ir.query import callee, symbol_name

_MOST = 500  # calls inlined into one kernel: what is left stays a call
_LARGEST = 20_000  # ops of a kernel


def inline_barrier_calls(module: ir.Module, _: CpuLowering) -> None:
    """Inline calls of functions with barriers that do not call themselves into workgroup functions."""
    kernels = kernel_module(module)
    if any(contains(function, {"func.call"}) for function in workgroup_functions(kernels)):
        bodies = _inlinable(kernels, functions_with_barriers(kernels))
        each_workgroup_function(kernels, lambda function: _inline_calls(function, bodies))


def _inlinable(module: ir.Operation, waiting: set[str]) -> dict[str, ir.Operation]:
    """Return the functions in ``waiting`` whose calls can be replaced: those that do not call themselves."""
    bodies = {
        name: op
        for op in operations(module.regions[0].blocks[0])
        if op.name == "func.func" and len(op.regions[0].blocks) and (name := symbol_name(op)) in waiting
    }
    callees = {name: _waiting_callees(body, waiting) for name, body in bodies.items()}
    return {name: body for name, body in bodies.items() if not _calls_itself(name, callees)}


def _inline_calls(kernel: ir.Operation, bodies: Mapping[str, ir.Operation]) -> None:
    """Replace each call of one of these functions.

    Raises ``CannotFissionError`` for one with branches that cannot be made structured control flow.
    """
    lifted: dict[str, ir.Operation] = {}
    try:
        _inline_all(kernel, bodies, lifted)
    finally:
        for copy in lifted.values():
            copy.erase()


def _inline_all(
    kernel: ir.Operation, bodies: Mapping[str, ir.Operation], lifted: dict[str, ir.Operation]
) -> None:
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


def _calls(op: ir.Operation, bodies: Mapping[str, ir.Operation]) -> list[ir.Operation]:
    return [inner for inner in nested(op) if inner.name == "func.call" and callee(inner) in bodies]


def _waiting_callees(function: ir.Operation, waiting: set[str]) -> set[str]:
    return {callee(op) for op in nested(function) if op.name == "func.call"} & waiting


def _calls_itself(name: str, callees: dict[str, set[str]]) -> bool:
    """Return whether a function calls itself, directly or not: inlining would never end."""
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
    end = terminator(body)
    made = []
    for op in operations(body):
        if op == end:
            break
        new = emit.copy(op)
        made.append(new)
        for inner in nested(new):
            for index, operand in enumerate(list(inner.operands)):
                if operand in values:
                    inner.operands[index] = values[operand]
        values.update(zip(op.results, new.results, strict=True))
    for old, value in zip(call.results, end.operands, strict=True):
        old.replace_all_uses_with(values.get(value, value))
    call.erase()
    return made
