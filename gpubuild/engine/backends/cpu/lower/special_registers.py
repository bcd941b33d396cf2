"""Special registers of NVIDIA GPUs, which hold ids and sizes, become loads from the work-item."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.lower.calls import call_service, functions, work_item
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.query import matching

_PREFIX = "nvvm.read.ptx.sreg."
_VECTOR = re.compile(r"(.+)\.([xyz])")
_LANES = image_layout.SUBGROUP
_FIELDS = {
    "tid": image_layout.ITEM_THREAD_ID,
    "ntid": image_layout.ITEM_BLOCK_DIM,
    "ctaid": image_layout.ITEM_BLOCK_ID,
    "nctaid": image_layout.ITEM_GRID_DIM,
    "cluster.nctaid": image_layout.ITEM_CLUSTER_DIM,
}
# x / y or x % y of two fields
_QUOTIENTS = {
    "clusterid": ("udiv", image_layout.ITEM_BLOCK_ID),
    "nclusterid": ("udiv", image_layout.ITEM_GRID_DIM),
    "cluster.ctaid": ("urem", image_layout.ITEM_BLOCK_ID),
}


def read_special_registers(module: ir.Module, _: CpuLowering) -> None:
    """Replace each operation that reads a register which a CPU has something for."""
    for function in functions(kernel_module(module)):
        for op in matching(function, lambda op: op.name.startswith(_PREFIX)):
            value = _read(LlvmBuilder(op), op.name.removeprefix(_PREFIX), work_item(function))
            if value is None:
                continue
            kind = str(op.results[0].type)
            if kind != str(value.type):
                name = "llvm.zext" if kind == "i64" else "llvm.trunc"
                value = LlvmBuilder(op).value(name, kind, value)
            replace(op, value)


def _read(build: LlvmBuilder, name: str, item: ir.Value) -> ir.Value | None:
    if match := _VECTOR.fullmatch(name):
        axis = 4 * "xyz".index(match[2])
        if match[1] in _FIELDS:
            return build.load(item, _FIELDS[match[1]] + axis, "i32")
        if match[1] in _QUOTIENTS:
            operation, field = _QUOTIENTS[match[1]]
            extent = build.load(item, image_layout.ITEM_CLUSTER_DIM + axis, "i32")
            return build.binary(operation, build.load(item, field + axis, "i32"), extent)
        return None
    reader = _SINGLE.get(name)
    return reader(build, item) if reader else None


def _linear(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.load(item, image_layout.ITEM_LINEAR_ID, "i32")


def _lane(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("and", _linear(build, item), build.constant(_LANES - 1))


def _subgroup(build: LlvmBuilder, item: ir.Value) -> ir.Value:
    return build.binary("udiv", _linear(build, item), build.constant(_LANES))


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


_SINGLE: dict[str, Callable[[LlvmBuilder, ir.Value], ir.Value]] = {
    "laneid": _lane,
    "warpsize": lambda build, _: build.constant(_LANES),
    "warpid": _subgroup,
    "nwarpid": _subgroups,
    "cluster.ctarank": _cluster_rank,
    "cluster.nctarank": lambda build, item: _product(build, item, image_layout.ITEM_CLUSTER_DIM),
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
