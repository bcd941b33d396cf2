"""Run loops that begin at a work-item's own row together for the workgroup.

Such a loop, from ``gpu.global_id y`` in steps of the rows of the grid, has other rows in each work-item, so
that what is inside cannot run for many of them together. Counted from the first row of the workgroup it is
the same for all; the work-items whose row is behind the last one do nothing. A barrier in it keeps the
work-items in one iteration. In x, loop_interchange handles loops that begin at a work-item's own index.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_loops import for_loop, if_then
from gpubuild.engine.backends.cpu.fission.uniformity import (
    POSITIONS,
    Uniformity,
    axis_of,
    body_operations,
    collective_ops,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import defining_op


def begin_loops_together(function: ir.Operation) -> None:
    """Rewrite the loops of ``function`` that begin at the work-item's own row or plane."""
    for loop in grid_loops(function):
        _rewrite(loop)


def grid_loops(function: ir.Operation) -> list[ir.Operation]:
    """Return the loops that begin at the work-item's own row or plane, and are not inside others."""
    if len(function.regions[0].blocks) != 1:
        return []
    entry = function.regions[0].blocks[0]
    loops = [op for op in operations(entry) if op.name == "scf.for" and _begins_at_row(op)]
    if not loops:
        return []
    uniformity = Uniformity(entry, collective_ops(nested(function), function))
    return [op for op in loops if all(map(uniformity.uniform, list(op.operands)[1:3]))]


def _begins_at_row(op: ir.Operation) -> bool:
    first = defining_op(op.operands[0])
    is_own = first is not None and first.name in POSITIONS and axis_of(first) != "x"
    return is_own and not op.results and not op.attributes and not collective_ops(nested(op), op)


def _rewrite(op: ir.Operation) -> None:
    emit, own = Emitter(op), op.operands[0].owner.operation
    axis = axis_of(own)
    first = emit.constant(0)
    if own.name == "gpu.global_id":
        first = emit.binary("arith.muli", *(emit.dimension(name, axis) for name in ("block_id", "block_dim")))
    run_together(op, first, axis)


def run_together(loop: ir.Operation, first: ir.Value, axis: str) -> ir.Block:
    """Let all work-items run an iteration of ``loop`` at once. It begins at ``first`` plus their place.

    Returns the body of the loop that replaces it: a barrier, then the work of those below the upper bound.
    """
    _, upper, step = loop.operands
    body = for_loop(Emitter(loop), first, upper, step).regions[0].blocks[0]
    inside = Emitter(terminator(body))
    inside.op("gpu.barrier", [], [])
    counter = inside.binary("arith.addi", body.arguments[0], inside.dimension("thread_id", axis))
    end = if_then(inside, inside.compare(Compare.SLT, counter, upper))
    old = loop.regions[0].blocks[0]
    old.arguments[0].replace_all_uses_with(counter)
    for op in body_operations(old):
        op.move_before(end)
    loop.erase()
    return body
