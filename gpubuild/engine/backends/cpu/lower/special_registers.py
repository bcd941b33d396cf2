"""Registers: NVIDIA's special registers, read from the work-item instead."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.builder import Builder, replace
from gpubuild.engine.backends.cpu.lower.state import FunctionState

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


def rewrite_register(op: ir.Operation, function: FunctionState) -> bool:
    """Replace ``op`` when it reads a register that a CPU has something for."""
    if not op.name.startswith(_PREFIX):
        return False
    value = _read(Builder(op), op.name.removeprefix(_PREFIX), function.item)
    if value is None:
        return False
    kind = str(op.results[0].type)
    if kind != str(value.type):
        name = "llvm.zext" if kind == "i64" else "llvm.trunc"
        value = Builder(op).value(name, kind, value)
    replace(op, value)
    return True


def _read(build: Builder, name: str, item: ir.Value) -> ir.Value | None:
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


def _linear(build: Builder, item: ir.Value) -> ir.Value:
    return build.load(item, image_layout.ITEM_LINEAR_ID, "i32")


def _lane(build: Builder, item: ir.Value) -> ir.Value:
    return build.binary("and", _linear(build, item), build.constant(_LANES - 1))


def _subgroup(build: Builder, item: ir.Value) -> ir.Value:
    return build.binary("udiv", _linear(build, item), build.constant(_LANES))


def _product(build: Builder, item: ir.Value, field: int) -> ir.Value:
    x, y, z = (build.load(item, field + 4 * i, "i32") for i in range(3))
    return build.binary("mul", build.binary("mul", x, y), z)


def _subgroups(build: Builder, item: ir.Value) -> ir.Value:
    items = _product(build, item, image_layout.ITEM_BLOCK_DIM)
    return build.binary(
        "udiv", build.binary("add", items, build.constant(_LANES - 1)), build.constant(_LANES)
    )


def _cluster_rank(build: Builder, item: ir.Value) -> ir.Value:
    """The workgroup's number in its cluster, x fastest."""
    dims = [build.load(item, image_layout.ITEM_CLUSTER_DIM + 4 * i, "i32") for i in range(3)]
    ids = [
        build.binary("urem", build.load(item, image_layout.ITEM_BLOCK_ID + 4 * i, "i32"), dims[i])
        for i in range(3)
    ]
    rows = build.binary("add", build.binary("mul", ids[2], dims[1]), ids[1])
    return build.binary("add", build.binary("mul", rows, dims[0]), ids[0])


def _lane_bit(build: Builder, item: ir.Value) -> ir.Value:
    return build.binary("shl", build.constant(1), _lane(build, item))


def _lanes_below(build: Builder, item: ir.Value) -> ir.Value:
    return build.binary("sub", _lane_bit(build, item), build.constant(1))


def _inverted(build: Builder, value: ir.Value) -> ir.Value:
    return build.binary("xor", value, build.constant(-1))


def _lanes_up_to(build: Builder, item: ir.Value) -> ir.Value:
    return build.binary("or", _lanes_below(build, item), _lane_bit(build, item))


def _clock(build: Builder, _: ir.Value) -> ir.Value:
    return build.service(image_layout.SERVICE_TIME_NS, "i64", []).results[0]


_SINGLE: dict[str, Callable[[Builder, ir.Value], ir.Value]] = {
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
