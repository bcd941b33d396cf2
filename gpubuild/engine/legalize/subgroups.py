"""Subgroups: their size, number and ids, and code that one lane of each runs."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_reduce import workgroup_position, workgroup_size


def _expand_size(op: ir.Operation, state: Legalization) -> None:
    emit = Emitter(op)
    emit.replace(emit.constant(state.capabilities.subgroup_size))


def _expand_id(op: ir.Operation, state: Legalization) -> None:
    """Position of the work-item in its workgroup, x fastest, by the size of a subgroup."""
    emit = Emitter(op)
    position = workgroup_position(emit)
    emit.replace(emit.binary("arith.divui", position, emit.constant(state.capabilities.subgroup_size)))


def _expand_count(op: ir.Operation, state: Legalization) -> None:
    """Size of the workgroup over the size of a subgroup, rounded up."""
    emit = Emitter(op)
    size = state.capabilities.subgroup_size
    total = emit.binary("arith.addi", workgroup_size(emit), emit.constant(size - 1))
    emit.replace(emit.binary("arith.divui", total, emit.constant(size)))


def _execute_on_first_lane(op: ir.Operation, _: Legalization) -> None:
    """``gpu.warp_execute_on_lane_0`` without values going in or out is a branch."""
    emit = Emitter(op)
    i1, zero = ir.IntegerType.get_signless(1), emit.constant(0)
    equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
    first = emit.op("arith.cmpi", [op.operands[0], zero], [i1], equal).results[0]
    branch = emit.op("scf.if", [first], [], regions=2)
    block = op.regions[0].blocks[0]
    block.append_to(branch.regions[0])
    end = block.operations[len(block.operations) - 1].operation
    Emitter(end).op("scf.yield", [], [])
    end.erase()
    op.erase()


# Not for targets whose conversion asks the device.
EXPAND_SIZE = rewriting("expand-subgroup-size", {"gpu.subgroup_size": _expand_size})
EXPAND_IDS = rewriting(
    "expand-subgroup-ids", {"gpu.subgroup_id": _expand_id, "gpu.num_subgroups": _expand_count}
)
EXPAND_EXECUTE_ON_LANE_0 = rewriting(
    "expand-execute-on-lane-0", {"gpu.warp_execute_on_lane_0": _execute_on_first_lane}
)
