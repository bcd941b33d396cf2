"""The shape of a workgroup in IR: memory, size, a work-item's position, lanes of the last subgroup."""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Emitter

WORKGROUP_SPACES = frozenset({"#gpu.address_space<workgroup>", "3 : i64", "3", "3 : i32"})


def workgroup_position(emit: Emitter) -> ir.Value:
    """Return the work-item's number in its workgroup, x fastest."""
    size_x, size_y = emit.dimension("block_dim", "x"), emit.dimension("block_dim", "y")
    rows = emit.binary("arith.muli", emit.dimension("thread_id", "z"), size_y)
    rows = emit.binary("arith.addi", rows, emit.dimension("thread_id", "y"))
    linear = emit.binary("arith.muli", rows, size_x)
    return emit.binary("arith.addi", linear, emit.dimension("thread_id", "x"))


def workgroup_size(emit: Emitter) -> ir.Value:
    """Return the number of work-items in a workgroup."""
    total = emit.binary("arith.muli", emit.dimension("block_dim", "x"), emit.dimension("block_dim", "y"))
    return emit.binary("arith.muli", total, emit.dimension("block_dim", "z"))


def known_size(op: ir.Operation) -> int:
    """Return the number of work-items in a workgroup that runs ``op``; 0 when unknown."""
    around: ir.Operation | None = op
    while around is not None:
        for name in ("known_block_size", "gpu.known_block_size"):
            if name in around.attributes:
                return prod(around.attributes[name])
        around = around.parent.operation if around.parent is not None else None
    return 0


def fills_subgroups(op: ir.Operation, subgroup_size: int) -> bool:
    """Return whether the kernel around ``op`` is written for workgroups of whole subgroups."""
    items = known_size(op)
    return items > 0 and items % subgroup_size == 0


def lanes_present(emit: Emitter, lane: ir.Value) -> ir.Value:
    """Return the number of lanes in this subgroup, or more than its size if it is full."""
    i32 = ir.IntegerType.get_signless(32)
    rest = emit.binary("arith.subi", workgroup_size(emit), workgroup_position(emit))
    rest = emit.value("arith.index_cast", [rest], i32)
    return emit.binary("arith.addi", rest, lane)
