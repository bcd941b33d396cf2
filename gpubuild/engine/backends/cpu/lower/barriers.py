"""Waiting: barriers and subgroup operations become calls of the runtime's services."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.builder import Builder, replace
from gpubuild.engine.backends.cpu.lower.state import FunctionState

_SHUFFLES = {
    "up": image_layout.SHUFFLE_UP,
    "down": image_layout.SHUFFLE_DOWN,
    "bfly": image_layout.SHUFFLE_XOR,
    "idx": image_layout.SHUFFLE_INDEX,
}
_VOTES = {
    "all": image_layout.VOTE_ALL,
    "any": image_layout.VOTE_ANY,
    "uni": image_layout.VOTE_UNIFORM,
    "ballot": image_layout.VOTE_BALLOT,
}
_REDUCTIONS = {
    "add": image_layout.REDUCE_ADD,
    "and": image_layout.REDUCE_AND,
    "or": image_layout.REDUCE_OR,
    "xor": image_layout.REDUCE_XOR,
    "min": image_layout.REDUCE_MIN,
    "max": image_layout.REDUCE_MAX,
    "umin": image_layout.REDUCE_UMIN,
    "umax": image_layout.REDUCE_UMAX,
}
_KIND = re.compile(r"<?(?:\w+ )?(\w+)>?$")


def rewrite_waiting(op: ir.Operation, function: FunctionState) -> bool:
    """Replace ``op`` when it makes work-items wait for each other."""
    rewrite = _REWRITES.get(op.name)
    if rewrite is None:
        return False
    rewrite(op, function)
    return True


def _barrier(op: ir.Operation, function: FunctionState) -> None:
    if len(op.operands) or len(op.results):
        raise function.module.unsupported(op, "only a barrier of the whole workgroup can run on CPUs")
    build = Builder(op)
    site = build.constant(function.site(op))
    build.service(image_layout.SERVICE_BARRIER, "", [function.item, site])
    replace(op)


def _cluster_wait(op: ir.Operation, function: FunctionState) -> None:
    build = Builder(op)
    site = build.constant(function.site(op, cluster=True))
    build.service(image_layout.SERVICE_CLUSTER_BARRIER, "", [function.item, site])
    replace(op)


def _cluster_arrive(op: ir.Operation, _: FunctionState) -> None:
    # The wait that must follow is a full barrier, which is stronger than arriving early.
    replace(op)


def _lanes(
    op: ir.Operation,
    function: FunctionState,
    operation: int,
    mask: ir.Value,
    value: ir.Value | None = None,
    lane: ir.Value | None = None,
    clamp: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    """Both halves of what the service gives back: an i32, and the i1 in bit 32."""
    build = Builder(op)
    zero = build.constant(0)
    site, number = build.constant(function.site(op)), build.constant(operation)
    arguments = [function.item, site, number, mask, value or zero, lane or zero, clamp or zero]
    both = build.service(image_layout.SERVICE_LANES, "i64", arguments).results[0]
    low = build.value("llvm.trunc", "i32", both)
    high = build.value("llvm.trunc", "i1", build.binary("lshr", both, build.constant(32, "i64")))
    return low, high


def _pair(build: Builder, kind: ir.Type, first: ir.Value, second: ir.Value) -> ir.Value:
    whole = build.value("llvm.mlir.poison", kind)
    whole = build.value("llvm.insertvalue", kind, whole, first, position="array<i64: 0>")
    return build.value("llvm.insertvalue", kind, whole, second, position="array<i64: 1>")


def _shuffle(op: ir.Operation, function: FunctionState) -> None:
    mask, value, lane, clamp = list(op.operands)
    build = Builder(op)
    kind = str(value.type)
    if kind not in {"i32", "f32"}:
        raise function.module.unsupported(op, f"a shuffle of {kind} values")
    if _kind(op) == "up" and function.module.written_op(op) == "gpu.shuffle":
        # Upstream bounds the source lane by 32 - width, which is right for a width of 32 only;
        # the dialect bounds it by lane 0.
        clamp = build.constant(0)
    carrier = value if kind == "i32" else build.value("llvm.bitcast", "i32", value)
    moved, valid = _lanes(op, function, _SHUFFLES[_kind(op)], mask, carrier, lane, clamp)
    if kind != "i32":
        moved = build.value("llvm.bitcast", kind, moved)
    if "return_value_and_is_valid" in op.attributes:
        moved = _pair(build, op.results[0].type, moved, valid)
    replace(op, moved)


def _vote(op: ir.Operation, function: FunctionState) -> None:
    mask, predicate = list(op.operands)
    build = Builder(op)
    value = build.value("llvm.zext", "i32", predicate)
    result, _ = _lanes(op, function, _VOTES[_kind(op)], mask, value)
    if str(op.results[0].type) == "i1":
        result = build.is_not_zero(result)
    replace(op, result)


def _match(op: ir.Operation, function: FunctionState) -> None:
    mask, value = list(op.operands)
    if str(value.type) != "i32":
        raise function.module.unsupported(op, f"a match of {value.type} values")
    kind = _kind(op)
    result, same = _lanes(
        op, function, image_layout.MATCH_ALL if kind == "all" else image_layout.MATCH_ANY, mask, value
    )
    build = Builder(op)
    replace(op, _pair(build, op.results[0].type, result, same) if kind == "all" else result)


def _redux(op: ir.Operation, function: FunctionState) -> None:
    value, mask = list(op.operands)
    kind = _kind(op)
    if str(value.type) != "i32" or kind not in _REDUCTIONS:
        raise function.module.unsupported(op, f"a subgroup reduction '{kind}' of {value.type}")
    replace(op, _lanes(op, function, _REDUCTIONS[kind], mask, value)[0])


def _elect(op: ir.Operation, function: FunctionState) -> None:
    build = Builder(op)
    mask = op.operands[0] if len(op.operands) else build.constant(-1)
    replace(op, _lanes(op, function, image_layout.ELECT, mask)[1])


def _sync(op: ir.Operation, function: FunctionState) -> None:
    _lanes(op, function, image_layout.LANE_SYNC, op.operands[0])
    replace(op)


def _kind(op: ir.Operation) -> str:
    """The last word of the op's ``kind`` attribute, such as ``bfly`` of ``#nvvm<shfl_kind bfly>``."""
    match = _KIND.search(str(op.attributes["kind"]))
    return match[1] if match else ""


_REWRITES: dict[str, Callable[[ir.Operation, FunctionState], None]] = {
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
}
