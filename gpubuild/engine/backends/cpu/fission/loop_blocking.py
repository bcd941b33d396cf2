"""Cut the long sums of register tiles into blocks, so that loads find their data in the cache.

Work-items of a workgroup read the same rows and columns, one work-item after the other. Where a sum is long,
its first data have left the cache when the next work-item needs them. With blocks, the work-items add a few
products each for all elements of their tiles, then the next few. In between, their sums are in memory. The
order of each sum stays.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays, can_keep
from gpubuild.engine.backends.cpu.fission.item_loops import for_loop
from gpubuild.engine.backends.cpu.fission.structured_control_flow import parallel_loops
from gpubuild.engine.backends.cpu.fission.uniformity import (
    Uniformity,
    body_operations,
    collective_ops,
    named,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import most_items
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, symbol_name
from gpubuild.engine.legalize.unroll_and_jam import can_be_jammed, few_iterations
from gpubuild.engine.legalize.workgroup import workgroup_position

_BLOCK = 128  # iterations, a power of two; 64 are as fast
_SHORT = 512  # iterations of a loop that gains nothing


def block_reductions(function: ir.Operation) -> None:
    """Cut the sums in the small parallel loops of ``function`` into blocks."""
    sums = [(loop, total) for loop in parallel_loops(function) if (total := _sum_in(loop)) is not None]
    if not sums:
        return
    uniformity = Uniformity(function.regions[0].blocks[0], collective_ops(nested(function), function))
    for number, (loop, total) in enumerate(sums):
        if all(map(uniformity.uniform, list(total.operands)[:3])):
            _block(function, loop, total, number)


def _sum_in(loop: ir.Operation) -> ir.Operation | None:
    """Return the one inner loop of a parallel ``loop``, if it may be long and only loads and computes."""
    inner = named(loop, ("scf.for",))
    if len(inner) != 1 or not can_be_jammed(loop, len(few_iterations(loop))):
        return None
    (total,) = inner
    lower, upper, step = map(constant_integer, list(total.operands)[:3])
    if step != 1 or (lower is not None and upper is not None and upper - lower <= _SHORT):
        return None
    order = list(operations(total.block))
    if any(named(op, ("memref.store",)) for op in order[: order.index(total) + 1]):
        return None  # each block would store again
    return total if total.results and all(can_keep(result.type) for result in total.results) else None


def _block(function: ir.Operation, loop: ir.Operation, total: ir.Operation, number: int) -> None:
    """Compute ``total`` in a loop over blocks in front of the parallel ``loop``, which adds the last block.

    A sum that turns out to be short has no other block than the last one.
    """
    emit, items = Emitter(loop), most_items(function)
    extents = [max(indices) + 1 for indices in zip(*few_iterations(loop), strict=True)]
    strides = [items * prod(extents[axis + 1 :]) for axis in range(len(extents))]
    keep = ContextArrays(function, f"{symbol_name(function)}.sums.{number}", items * prod(extents), emit)
    arrays = [keep.make(result.type) for result in total.results]
    position = workgroup_position(emit)

    def begin_with_kept(part: ir.Operation, tile: ir.Operation, condition: ir.Value) -> ir.Value:
        """Let ``part`` begin with the kept sums where ``condition`` is true; return their place."""
        inside, at = Emitter(part), position
        for argument, stride in zip(tile.regions[0].blocks[0].arguments, strides, strict=True):
            offset = inside.binary("arith.muli", argument, inside.constant(stride))
            at = inside.binary("arith.addi", at, offset)
        for operand, array in enumerate(arrays, start=3):
            first = part.operands[operand]
            kept = inside.value("memref.load", [array, at], first.type)
            part.operands[operand] = inside.select(condition, kept, first)
        return at

    lower, upper, _ = list(total.operands)[:3]
    count = emit.binary("arith.subi", upper, lower)
    is_long = emit.compare(Compare.SGT, count, emit.constant(_SHORT))
    before_last = emit.binary("arith.subi", count, emit.constant(1))
    before_last = emit.binary("arith.andi", before_last, emit.constant(-_BLOCK))
    last = emit.select(is_long, emit.binary("arith.addi", lower, before_last), lower)

    body = for_loop(emit, lower, last, emit.constant(_BLOCK)).regions[0].blocks[0]
    start, inside = body.arguments[0], Emitter(terminator(body))
    end = inside.binary("arith.addi", start, inside.constant(_BLOCK))
    is_later = inside.compare(Compare.NE, start, lower)
    tile = inside.copy(loop)
    # All work-items compute one element of their tiles before the next one, as in the last block.
    Emitter(tile.regions[0].blocks[0].operations[0].operation).op("gpu.barrier", [], [])
    (part,) = named(tile, ("scf.for",))
    order = body_operations(part.block)
    for op in reversed(order[order.index(part) + 1 :]):
        op.erase()
    part.operands[0], part.operands[1] = start, end
    at = begin_with_kept(part, tile, is_later)
    for result, array in zip(part.results, arrays, strict=True):
        Emitter(terminator(part.block)).op("memref.store", [result, array, at], [])

    total.operands[0] = last
    begin_with_kept(total, loop, is_long)
