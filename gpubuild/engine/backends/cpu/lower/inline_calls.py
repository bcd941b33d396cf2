"""Inline calls: functions in which work-items wait, put in the place of their calls in kernels."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from gpubuild.engine.backends.cpu.fission.lift_control_flow import has_branches, lift_branches
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.ir.builder import Emitter

_MOST = 500  # calls put in place in one kernel: what is left stays a call
_LARGEST = 20_000  # ops of a kernel


def inlinable(module: ir.Operation, waiting: set[str]) -> dict[str, ir.Operation]:
    """The functions in ``waiting`` whose calls can be replaced: those that do not call themselves."""
    bodies = {
        name: op
        for op in operations(module.regions[0].blocks[0])
        if op.name == "func.func"
        and len(op.regions[0].blocks)
        and (name := op.attributes["sym_name"].value) in waiting
    }
    callees = {name: _waiting_callees(body, waiting) for name, body in bodies.items()}
    return {name: body for name, body in bodies.items() if not _calls_itself(name, callees)}


def inline_waiting_calls(kernel: ir.Operation, bodies: Mapping[str, ir.Operation]) -> None:
    """Replace each call of one of these functions, see :func:`inlinable`.

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
        name = _callee(call)
        if name not in lifted and has_branches(bodies[name]):
            lifted[name] = bodies[name].clone(ir.InsertionPoint(bodies[name])).operation
            lifted[name].attributes["sym_name"] = ir.StringAttr.get(f"{name}.lifted")
            lift_branches(lifted[name])
        function = lifted.get(name, bodies[name])
        size += len(nested(function))
        for op in _inline(call, function.regions[0].blocks[0]):
            work += _calls(op, bodies)


def _calls(op: ir.Operation, bodies: Mapping[str, ir.Operation]) -> list[ir.Operation]:
    return [inner for inner in nested(op) if inner.name == "func.call" and _callee(inner) in bodies]


def _waiting_callees(function: ir.Operation, waiting: set[str]) -> set[str]:
    return {_callee(op) for op in nested(function) if op.name == "func.call"} & waiting


def _calls_itself(name: str, callees: dict[str, set[str]]) -> bool:
    """Whether a function calls itself, directly or not: code put in place would never end."""
    reached: set[str] = set()
    work = [name]
    while work:
        new = callees.get(work.pop(), set()) - reached
        reached |= new
        work += new
    return name in reached


def _callee(call: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)


def _inline(call: ir.Operation, body: ir.Block) -> list[ir.Operation]:
    """Copy ``body`` in front of ``call``, which goes; the ops that were made."""
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
