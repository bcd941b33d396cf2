"""Sites: the operations that work-items must reach together, and who has to.

By the dialect, a barrier and a ``gpu.all_reduce`` are executed by all work-items of a workgroup or by
none, matrix operations by all of a subgroup; of a shuffle or rotation, the first ``width`` lanes are
active. Instructions of one vendor have rules of their own: a wait of a cluster is the same wait
wherever it stands, and asks for nobody who has returned.

Read for every file with such operations, so that nothing here takes time to load.
"""

from __future__ import annotations

from mlir import ir

WORKGROUP = frozenset({"gpu.barrier", "gpu.all_reduce"})
MATRICES = frozenset(
    {"gpu.subgroup_mma_compute", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"}
)
_REDUCE = "gpu.subgroup_reduce"
SHUFFLE, ROTATE = "gpu.shuffle", "gpu.rotate"
CLUSTER = "nvvm.cluster.wait"
# Barriers of NVIDIA and AMD: different ones of them may meet, and not always all work-items.
UNTOLD = frozenset({"nvvm.barrier", "nvvm.barrier0", "rocdl.barrier", "rocdl.s.barrier"})
NAMES = WORKGROUP | MATRICES | {_REDUCE, SHUFFLE, ROTATE, CLUSTER}


def is_site(op: ir.Operation) -> bool:
    """Whether work-items must meet at ``op``.

    A reduction that is not `uniform` promises nothing; what nobody uses of a subgroup's is not computed.
    """
    if op.name not in NAMES or (op.name == _REDUCE and "uniform" not in op.attributes):
        return False
    unused = len(op.results) and not any(next(iter(result.uses), None) for result in op.results)
    return op.name in WORKGROUP or not unused


def width_of(op: ir.Operation) -> ir.Value | int | None:
    """The width of a shuffle or rotation: an operand, or a number."""
    if op.name == SHUFFLE:
        return op.operands[2]
    return int(ir.IntegerAttr(op.attributes["width"]).value) if op.name == ROTATE else None


CALLS = frozenset({"func.call", "llvm.call"})


def callee_of(call: ir.Operation) -> str:
    """The name of the function that is called, if it has one."""
    if "callee" not in call.attributes:
        return ""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
