"""Participants: which work-items an operation of a subgroup or workgroup asks for, and if they are there."""

from __future__ import annotations

from mlir import ir

_UNIFORM = "uniform"
_KERNEL = ("gpu.kernel", "kernel")


def refusal(op: ir.Operation, subgroup_size: int) -> str:
    """Why a target with subgroups of this size cannot do ``op``, or an empty string."""
    attributes = op.attributes
    if op.name == "gpu.subgroup_reduce" and "cluster_size" in attributes:
        size = attributes["cluster_size"].value
        stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
        if size * stride > subgroup_size:
            apart = f" that are {stride} apart" if stride > 1 else ""
            return f"'{op.name}' over clusters of {size} work-items{apart}, {_of(subgroup_size)}"
    if op.name == "gpu.rotate" and attributes["width"].value > subgroup_size:
        return f"'{op.name}' of {attributes['width'].value} work-items, {_of(subgroup_size)}"
    if op.name == "gpu.all_reduce" and not (_UNIFORM in attributes or _come_all(op)):
        return (
            f"'{op.name}' without `uniform`: all work-items of a workgroup do it together, and some may not "
            "come here; write `uniform` if they do"
        )
    return ""


def _of(subgroup_size: int) -> str:
    return f"where a subgroup has {subgroup_size}"


def _come_all(op: ir.Operation) -> bool:
    """Whether ``op`` stands in a kernel outside of all branches and loops."""
    function = op.parent.operation
    if not any(mark in function.attributes for mark in _KERNEL):
        return False
    return bool(op.block == function.regions[0].blocks[0])
