"""Prepare: kernels for fission: what it does not know becomes what it does."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.applicability import check_kernel
from gpubuild.engine.backends.cpu.fission.context_arrays import Slots
from gpubuild.engine.backends.cpu.fission.index_counters import count_in_indices
from gpubuild.engine.backends.cpu.fission.lift_control_flow import lift_branches
from gpubuild.engine.backends.cpu.fission.private_memory import allocate_attributions, place_private
from gpubuild.engine.backends.cpu.fission.shuffle_through_memory import lower_shuffle
from gpubuild.engine.backends.cpu.fission.shuffle_vectors import LaneRow
from gpubuild.engine.backends.cpu.fission.structured_control_flow import (
    open_divergent_loops,
    refuse_allocations,
    simplify_structures,
)
from gpubuild.engine.backends.cpu.fission.uniformity import ancestors_of_group_ops, nested, operations
from gpubuild.engine.backends.cpu.lower.inline_calls import inline_waiting_calls
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.subgroup_reduce import workgroup_position, workgroup_size


def prepare(
    function: ir.Operation,
    name: str,
    bodies: Mapping[str, ir.Operation],
    waiting: set[str],
    made: list[Slots],
    *,
    may_ask: bool,
) -> list[LaneRow]:
    """Turn what fission does not know into what it does; ``made`` gets the slots that takes.

    ``bodies`` are the functions that are inlined, those in ``waiting`` the ones in which work-items wait.
    Gives back the exchanges that vectors can do, by the number that their operations carry.

    With ``may_ask`` that includes loops that work-items may run different numbers of times.

    Raises ``CannotFissionError`` when something is left.
    """
    lift_branches(function)
    inline_waiting_calls(function, bodies)
    simplify_structures(function)
    count_in_indices(function)
    rows: list[LaneRow] = []
    allocate_attributions(function)
    entry = function.regions[0].blocks[0]
    inside = [inner for op in operations(entry) for inner in nested(op)]
    shuffles = [op for op in inside if op.name == "gpu.shuffle"]
    if shuffles or any(op.name == "memref.alloca" for op in inside):
        count, head = most_items(function), Emitter(entry.operations[0].operation)
        item, items = workgroup_position(head), workgroup_size(head)
        whole = (
            -(-count // image_layout.SUBGROUP) * image_layout.SUBGROUP
        )  # lanes that are not there have room, too
        made.append(Slots(function, name + ".lane", whole, head))
        for op in shuffles:
            lower_shuffle(op, made[0], item, items, rows)
        inside = [inner for op in operations(entry) for inner in nested(op)]
        place_private(function, ancestors_of_group_ops(inside, function), name, count, item, made)
    if may_ask:
        open_divergent_loops(function)
    refuse_allocations(function)
    check_kernel(function, waiting)
    return rows


def most_items(function: ir.Operation) -> int:
    """How many work-items a workgroup of the kernel can have."""
    if "known_block_size" not in function.attributes:
        return image_layout.MAX_BLOCK
    items = 1
    for extent in ir.DenseI32ArrayAttr(function.attributes["known_block_size"]):
        items *= extent
    return min(max(items, 1), image_layout.MAX_BLOCK)
