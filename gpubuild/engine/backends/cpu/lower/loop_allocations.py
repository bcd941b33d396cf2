"""Allocations: private memory made in a loop, which would use up the stack of a work-item."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.passes import Lowering

# Loops whose body is an allocation scope: memory made in an iteration ends with it, so that all
# iterations may use the same place.
_SCOPED_LOOPS = frozenset({"scf.for", "scf.forall", "scf.parallel", "affine.for", "affine.parallel"})
_ONCE = frozenset({"scf.if", "scf.index_switch", "scf.execute_region", "affine.if"})
_FUNCTIONS = frozenset({"gpu.func", "func.func"})


def hoist_allocations(module: ir.Module, _: Lowering) -> None:
    """Move each ``memref.alloca`` of constant size out of the loops it is in, to its function's entry."""
    found: list[tuple[ir.Operation, ir.Operation]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.alloca" and not len(op.operands):
            function = _function_around(op)
            if function is not None:
                found.append((op, function))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op, function in found:
        first = function.regions[0].blocks[0].operations[0].operation
        if first != op:
            op.move_before(first)


def _function_around(op: ir.Operation) -> ir.Operation | None:
    """Return the function ``op`` may move to the entry of: everything between them is scoped or runs once."""
    parent = op.parent
    while parent is not None:
        name = parent.operation.name
        if name in _FUNCTIONS:
            # In a function with branches of its own only structured code tells where a loop is.
            blocks = parent.operation.regions[0].blocks
            return parent.operation if len(blocks) == 1 or op.parent.operation != parent.operation else None
        if name not in _SCOPED_LOOPS and name not in _ONCE:
            return None
        parent = parent.operation.parent
    return None
