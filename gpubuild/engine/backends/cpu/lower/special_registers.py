"""Replace reads of NVIDIA's special registers, which hold ids and sizes, by loads from the work-item."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.lower.calls import call_service, work_item
from gpubuild.engine.backends.cpu.state import CpuLowering
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.passes import Pass, rewriting

_LANES = image_layout.SUBGROUP
_Reader: TypeAlias = Callable[[LlvmBuilder, ir.Value], ir.Value]  # reads a register of a work-item


def _rewrite(op: ir.Operation, _: CpuLowering) -> None:
    build = LlvmBuilder(op)
    value = _REGISTERS[op.name](build, work_item(op))
    kind = str(op.results[0].type)
    if kind != str(value.type):
        value = build.value("llvm.zext" if kind == "i64" else "llvm.trunc", kind, value)
    replace(op, value)


def _field(build: LlvmBuilder, item: ir.Value, offset: int) -> ir.Value:
    return build.load(item, offset, "i32")


def _by_cluster(build: LlvmBuilder, item: ir.Value, operation: str, field: int, axis: int) -> ir.Value:
    """Return the quotient or the remainder of a field and the size of a cluster."""
    extent = build.load(item, image_layout.ITEM_CLUSTER_DIM + 4 * axis, "i32")
    return build.binary(operation, build.load(item, field + 4 * axis, "i32"), extent)


def _lane(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("and", _field(build, item, image_layout.ITEM_LINEAR_ID), build.constant(_LANES - 1))


def _subgroup(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("udiv", _field(build, item, image_layout.ITEM_LINEAR_ID), build.constant(_LANES))


def _product(build: LlvmBuilder, item: ir.Value, field: int) -> ir.Value:
    x, y, z = (build.load(item, field + 4 * i, "i32") for i in range(3))
    return build.binary("mul", build.binary("mul", x, y), z)


def _subgroups(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    items = _product(build, item, image_layout.ITEM_BLOCK_DIM)
    return build.binary(
        "udiv", build.binary("add", items, build.constant(_LANES - 1)), build.constant(_LANES)
    )


def _cluster_rank(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    """Return the workgroup's number in its cluster, x fastest."""
    dims = [build.load(item, image_layout.ITEM_CLUSTER_DIM + 4 * i, "i32") for i in range(3)]
    ids = [
        build.binary("urem", build.load(item, image_layout.ITEM_BLOCK_ID + 4 * i, "i32"), dims[i])
        for i in range(3)
    ]
    rows = build.binary("add", build.binary("mul", ids[2], dims[1]), ids[1])
    return build.binary("add", build.binary("mul", rows, dims[0]), ids[0])


def _lane_bit(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("shl", build.constant(1), _lane(build, item))


def _lanes_below(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("sub", _lane_bit(build, item), build.constant(1))


def _inverted(build: LlvmBuilder, value: ir.Value) -> ir.Value:
    return build.binary("xor", value, build.constant(-1))


def _lanes_up_to(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("or", _lanes_below(build, item), _lane_bit(build, item))


def _clock(build: LlvmBuilder, _: ir.Value) -> ir.Value:
    return call_service(build, image_layout.SERVICE_TIME_NS, "i64", []).results[0]


_FIELDS = {
    "tid": image_layout.ITEM_THREAD_ID,
    "ntid": image_layout.ITEM_BLOCK_DIM,
    "ctaid": image_layout.ITEM_BLOCK_ID,
    "nctaid": image_layout.ITEM_GRID_DIM,
    "cluster.nctaid": image_layout.ITEM_CLUSTER_DIM,
}
_BY_CLUSTER = {
    "clusterid": ("udiv", image_layout.ITEM_BLOCK_ID),
    "nclusterid": ("udiv", image_layout.ITEM_GRID_DIM),
    "cluster.ctaid": ("urem", image_layout.ITEM_BLOCK_ID),
}
_SINGLE: dict[str, _Reader] = {
    "laneid": _lane,
    "warpsize": lambda build, _: build.constant(_LANES),
    "warpid": _subgroup,
    "nwarpid": _subgroups,
    "cluster.ctarank": _cluster_rank,
    "cluster.nctarank": partial(_product, field=image_layout.ITEM_CLUSTER_DIM),
    "gridid": lambda build, _: build.constant(0),
    "smid": lambda build, _: build.constant(0),
    "nsmid": lambda build, _: build.constant(1),
    "lanemask.eq": _lane_bit,
    "lanemask.lt": _lanes_below,
    "lanemask.le": _lanes_up_to,
    "lanemask.ge": lambda build, item: _inverted(build, _lanes_below(build, item)),
    "lanemask.gt": lambda build, item: _inverted(build, _lanes_up_to(build, item)),
    "clock": _clock,
    "clock64": _clock,
    "globaltimer": _clock,
    "globaltimer.lo": _clock,
}
_READERS: dict[str, _Reader] = {
    **{
        f"{name}.{axis}": partial(_field, offset=field + 4 * number)
        for name, field in _FIELDS.items()
        for number, axis in enumerate("xyz")
    },
    **{
        f"{name}.{axis}": partial(_by_cluster, operation=operation, field=field, axis=number)
        for name, (operation, field) in _BY_CLUSTER.items()
        for number, axis in enumerate("xyz")
    },
    **_SINGLE,
}
_REGISTERS = {f"nvvm.read.ptx.sreg.{name}": reader for name, reader in _READERS.items()}
# A register for which a CPU has no value stays, and refuse-unsupported reports it.
READ_SPECIAL_REGISTERS: Pass[CpuLowering] = rewriting(
    "read-special-registers", dict.fromkeys(_REGISTERS, _rewrite)
)
