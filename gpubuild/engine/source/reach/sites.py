"""Sites: the operations that work-items must reach together, and who has to.

By the dialect, a barrier and a ``gpu.all_reduce`` are executed by all work-items of a workgroup or by
none, matrix operations by all of a subgroup; of a shuffle or rotation, the first ``width`` lanes are
active. Instructions of one vendor have rules of their own: a wait of a cluster is the same wait
wherever it stands, and asks for nobody who has returned. Barriers of vendors, and what may hold one
or not come back, end a walk: who comes there may meet others anywhere.

Read for every file with such operations, so that nothing here takes time to load.
"""

from __future__ import annotations

from collections.abc import Container

from mlir import ir

WORKGROUP = frozenset({"gpu.barrier", "gpu.all_reduce"})
MATRICES = frozenset(
    {"gpu.subgroup_mma_compute", "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"}
)
_REDUCE = "gpu.subgroup_reduce"
SHUFFLE, ROTATE = "gpu.shuffle", "gpu.rotate"
CLUSTER = "nvvm.cluster.wait"
CALLS = frozenset({"func.call", "llvm.call"})
# Theirs are other barriers than the dialect's: any may meet any, some in two steps, some not for all.
_VENDORS = frozenset({"amdgpu", "nvgpu", "nvvm", "rocdl", "spirv", "xegpu", "xevm"})
_INTRINSIC = "llvm.call_intrinsic"
_UNTOLD = frozenset(
    {
        *("llvm.inline_asm", "nvvm.inline_ptx", "func.call_indirect", "llvm.invoke"),
        *("llvm.intr.trap", "llvm.intr.debugtrap", "llvm.intr.ubsantrap", "nvvm.exit", "rocdl.s.endpgm"),
    }
)
# First letters of functions and intrinsics that come back, and at which nobody meets.
_HARMLESS = (
    *("__nv_", "__ocml_", "__ockl_get_"),
    *(
        "llvm.nvvm.read.ptx.sreg.",
        "llvm.amdgcn.workitem.id.",
        "llvm.amdgcn.workgroup.id.",
        "llvm.amdgcn.mbcnt.",
    ),
    *("llvm.ctpop.", "llvm.fabs.", "llvm.fma.", "llvm.sqrt."),
)
NAMES = WORKGROUP | MATRICES | {_REDUCE, SHUFFLE, ROTATE, CLUSTER}


def is_site(op: ir.Operation) -> bool:
    """Whether work-items must meet at ``op``.

    A reduction that is not `uniform` promises nothing; what nobody uses of a subgroup's is not computed.
    """
    if op.name not in NAMES or (op.name == _REDUCE and "uniform" not in op.attributes):
        return False
    unused = len(op.results) and not any(next(iter(result.uses), None) for result in op.results)
    return op.name in WORKGROUP or not unused


def ends_walks(op: ir.Operation, functions: Container[str]) -> bool:
    """Whether nobody knows who has to come to ``op``, or who comes back; ``functions`` have bodies here.

    What is not known to be harmless is not.
    """
    name = op.name
    if name in CALLS:
        callee = callee_of(op)
        return callee not in functions and not callee.startswith(_HARMLESS)
    if name == _INTRINSIC:
        return not ir.StringAttr(op.attributes["intrin"]).value.startswith(_HARMLESS)
    vendor = name.partition(".")[0] in _VENDORS
    return name in _UNTOLD or (vendor and ("barrier" in name.lower() or name.startswith("nvvm.bar")))


def width_of(op: ir.Operation) -> ir.Value | int | None:
    """The width of a shuffle or rotation: an operand, or a number."""
    if op.name == SHUFFLE:
        return op.operands[2]
    return int(ir.IntegerAttr(op.attributes["width"]).value) if op.name == ROTATE else None


def callee_of(call: ir.Operation) -> str:
    """The name of the function that is called, if it has one."""
    if "callee" not in call.attributes:
        return ""
    return str(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
