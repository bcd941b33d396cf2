"""Sites: the operations that work-items must reach together, and who has to.

By the dialect, a barrier and a ``gpu.all_reduce`` are executed by all work-items of a workgroup or by
none, matrix operations by all of a subgroup; of a shuffle or rotation, the first ``width`` lanes are
active. Instructions of one vendor have rules of their own: a wait of a cluster is the same wait
wherever it stands, and asks for nobody who has returned.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

ALL_LANES = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An operation at which work-items meet."""

    op: ir.Operation
    name: str
    identity: int  # sites with the same are one place
    subgroup: bool = False  # only work-items of a subgroup meet
    lanes: int = ALL_LANES  # of a subgroup, which have to come: the first so many
    spares_returned: bool = False  # who has returned is not waited for


_WORKGROUP = frozenset({"gpu.barrier", "gpu.all_reduce"})
_MATRICES = frozenset(
    {"gpu.subgroup_mma_compute", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"}
)
_REDUCE = "gpu.subgroup_reduce"
_SHUFFLE, _ROTATE = "gpu.shuffle", "gpu.rotate"
_CLUSTER = "nvvm.cluster.wait"
# Barriers of NVIDIA and AMD: different ones of them may meet, and not always all work-items.
UNTOLD = frozenset({"nvvm.barrier", "nvvm.barrier0", "rocdl.barrier", "rocdl.s.barrier"})
NAMES = _WORKGROUP | _MATRICES | {_REDUCE, _SHUFFLE, _ROTATE, _CLUSTER}


def is_site(op: ir.Operation) -> bool:
    """Whether work-items must meet at ``op``. A reduction that is not `uniform` promises nothing."""
    return op.name in NAMES and (op.name != _REDUCE or "uniform" in op.attributes)


def describe(op: ir.Operation, identity: int, width: int) -> Site:
    """The site that ``op`` is; ``width`` is that of a shuffle, where it is known, else negative.

    A shuffle of unknown width asks for nobody.
    """
    name = op.name
    if name in _WORKGROUP:
        return Site(op=op, name=name, identity=identity)
    if name == _CLUSTER:
        return Site(op=op, name=name, identity=-1, spares_returned=True)
    if name in {_SHUFFLE, _ROTATE}:
        return Site(op=op, name=name, identity=identity, subgroup=True, lanes=width, spares_returned=True)
    return Site(op=op, name=name, identity=identity, subgroup=True)


def width_of(op: ir.Operation) -> ir.Value | int | None:
    """The width of a shuffle or rotation: an operand, or a number."""
    if op.name == _SHUFFLE:
        return op.operands[2]
    return int(ir.IntegerAttr(op.attributes["width"]).value) if op.name == _ROTATE else None
