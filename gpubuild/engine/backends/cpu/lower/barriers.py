"""Lower barriers and subgroup operations, at which work-items wait, to calls of the runtime's services.

The function around one gets an attribute that names the first, which decides the tier.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.image_layout import LaneOp
from gpubuild.engine.backends.cpu.lower.calls import (
    Rewrite,
    call_service,
    erase_declarations,
    function_around,
    work_item,
)
from gpubuild.engine.backends.cpu.state import CLUSTER_BARRIER, WAITS, CpuLowering, kernel_module
from gpubuild.engine.backends.cpu.workarounds import bound_of_shuffle_up
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import callee

_NAMES = {
    "bfly": "XOR",
    "idx": "INDEX",
    "uni": "UNIFORM",
}  # of lane operations, where they differ from nvvm's
_KIND = re.compile(r"<?(?:\w+ )?(\w+)>?$")


def _barrier(op: ir.Operation, lowering: CpuLowering) -> None:
    if len(op.operands) or len(op.results):
        raise lowering.unsupported(op, "only a barrier of the whole workgroup can run on CPUs")
    _wait(op, lowering, image_layout.SERVICE_BARRIER)


def _cluster_wait(op: ir.Operation, lowering: CpuLowering) -> None:
    function_around(op).attributes[CLUSTER_BARRIER] = ir.UnitAttr.get()
    _wait(op, lowering, image_layout.SERVICE_CLUSTER_BARRIER)


def _wait(op: ir.Operation, lowering: CpuLowering, service: int, *arguments: ir.Value) -> None:
    """Replace ``op`` by a call of ``service``."""
    build = LlvmBuilder(op)
    site = build.constant(lowering.barrier_site(op, function_around(op)))
    call_service(build, service, "", [work_item(op), site, *arguments])
    replace(op)


def _cluster_arrive(op: ir.Operation, _: CpuLowering) -> None:
    # The wait that must follow is a full barrier, which is stronger than arriving early.
    replace(op)


def _lanes(
    op: ir.Operation,
    lowering: CpuLowering,
    operation: LaneOp,
    mask: ir.Value,
    value: ir.Value | None = None,
    lane: ir.Value | None = None,
    clamp: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    """Return both parts of the service's result: an i32, and the i1 in bit 32."""
    build = LlvmBuilder(op)
    zero = build.constant(0)
    site, number = build.constant(lowering.barrier_site(op, function_around(op))), build.constant(operation)
    arguments = [work_item(op), site, number, mask, value or zero, lane or zero, clamp or zero]
    both = call_service(build, image_layout.SERVICE_LANES, "i64", arguments).results[0]
    low = build.value("llvm.trunc", "i32", both)
    high = build.value("llvm.trunc", "i1", build.binary("lshr", both, build.constant(32, "i64")))
    return low, high


def _pair(build: LlvmBuilder, kind: ir.Type, first: ir.Value, second: ir.Value) -> ir.Value:
    whole = build.value("llvm.mlir.poison", kind)
    whole = build.value("llvm.insertvalue", kind, whole, first, position="array<i64: 0>")
    return build.value("llvm.insertvalue", kind, whole, second, position="array<i64: 1>")


def _shuffle(op: ir.Operation, lowering: CpuLowering) -> None:
    mask, value, lane, clamp = list(op.operands)
    build = LlvmBuilder(op)
    kind = str(value.type)
    if kind not in {"i32", "f32"}:
        raise lowering.unsupported(op, f"a shuffle of {kind} values")
    if _kind(op) == "up":
        clamp = bound_of_shuffle_up(build, clamp, lowering.written_op(op))
    carrier = value if kind == "i32" else build.value("llvm.bitcast", "i32", value)
    moved, valid = _lanes(op, lowering, _lane_op("SHUFFLE", op), mask, carrier, lane, clamp)
    if kind != "i32":
        moved = build.value("llvm.bitcast", kind, moved)
    if "return_value_and_is_valid" in op.attributes:
        moved = _pair(build, op.results[0].type, moved, valid)
    replace(op, moved)


def _vote(op: ir.Operation, lowering: CpuLowering) -> None:
    mask, predicate = list(op.operands)
    build = LlvmBuilder(op)
    value = build.value("llvm.zext", "i32", predicate)
    result, _ = _lanes(op, lowering, _lane_op("VOTE", op), mask, value)
    if str(op.results[0].type) == "i1":
        result = build.is_not_zero(result)
    replace(op, result)


def _match(op: ir.Operation, lowering: CpuLowering) -> None:
    mask, value = list(op.operands)
    if str(value.type) != "i32":
        raise lowering.unsupported(op, f"a match of {value.type} values")
    if _kind(op) == "all":
        pair = _lanes(op, lowering, LaneOp.MATCH_ALL, mask, value)
        replace(op, _pair(LlvmBuilder(op), op.results[0].type, *pair))
    else:
        replace(op, _lanes(op, lowering, LaneOp.MATCH_ANY, mask, value)[0])


def _redux(op: ir.Operation, lowering: CpuLowering) -> None:
    value, mask = list(op.operands)
    if str(value.type) != "i32" or f"REDUCE_{_kind(op).upper()}" not in LaneOp.__members__:
        raise lowering.unsupported(op, f"a subgroup reduction '{_kind(op)}' of {value.type}")
    replace(op, _lanes(op, lowering, _lane_op("REDUCE", op), mask, value)[0])


def _elect(op: ir.Operation, lowering: CpuLowering) -> None:
    build = LlvmBuilder(op)
    mask = op.operands[0] if len(op.operands) else build.constant(-1)
    replace(op, _lanes(op, lowering, LaneOp.ELECT, mask)[1])


def _sync(op: ir.Operation, lowering: CpuLowering) -> None:
    _lanes(op, lowering, LaneOp.LANE_SYNC, op.operands[0])
    replace(op)


def _lane_op(group: str, op: ir.Operation) -> LaneOp:
    kind = _kind(op)
    return LaneOp[f"{group}_{_NAMES.get(kind, kind.upper())}"]


def _kind(op: ir.Operation) -> str:
    """Return the last word of the op's ``kind`` attribute, such as ``bfly`` of ``#nvvm<shfl_kind bfly>``."""
    match = _KIND.search(str(op.attributes["kind"]))
    return match[1] if match else ""


def _call(op: ir.Operation, lowering: CpuLowering) -> None:
    """Replace a call that earlier passes have made of a barrier, or of the test of one."""
    name = callee(op)
    if name == image_layout.DIVERGED:
        _wait(op, lowering, image_layout.SERVICE_DIVERGED, *op.operands)
    elif name == image_layout.CHECK_BARRIER:
        function = function_around(op)
        if WAITS not in function.attributes:
            function.attributes[WAITS] = ir.StringAttr.get("gpu.barrier")
        call_service(LlvmBuilder(op), image_layout.SERVICE_BARRIER, "", [work_item(op), *op.operands])
        replace(op)


def lower_barriers(module: ir.Module, lowering: CpuLowering) -> None:
    """Replace all operations that work-items wait at, in textual order: messages number them."""
    rewriting("lower-barriers", _REWRITES).run(module, lowering)
    erase_declarations(kernel_module(module), {image_layout.DIVERGED, image_layout.CHECK_BARRIER})


_REWRITES: dict[str, Rewrite] = {
    "nvvm.barrier0": _barrier,
    "nvvm.barrier": _barrier,
    "nvvm.cluster.arrive": _cluster_arrive,
    "nvvm.cluster.arrive.relaxed": _cluster_arrive,
    "nvvm.cluster.wait": _cluster_wait,
    "nvvm.shfl.sync": _shuffle,
    "nvvm.vote.sync": _vote,
    "nvvm.match.sync": _match,
    "nvvm.redux.sync": _redux,
    "nvvm.elect.sync": _elect,
    "nvvm.bar.warp.sync": _sync,
    "llvm.call": _call,
}
