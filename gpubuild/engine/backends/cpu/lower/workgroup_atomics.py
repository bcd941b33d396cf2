"""Workgroup atomics: atomic operations on workgroup memory that need not be atomic on CPUs.

One thread runs all work-items of a workgroup, in every tier, and those of a cluster too. It goes from
one work-item to another only where they wait, never inside an operation. So nobody else sees workgroup
memory, and a load, an operation and a store are as good as an atomic one, and much faster. What lies
in global memory stays atomic: other threads run other workgroups.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import LlvmBuilder, replace

_WORKGROUP_POINTER = "!llvm.ptr<3>"
_RELAXED = "0 : i64"  # enum AtomicOrdering of the LLVM dialect: not atomic
# enum AtomicBinOp of the LLVM dialect → what computes the new value from the old one and the operand
_OPERATIONS = {
    1: "add",
    2: "sub",
    3: "and",
    5: "or",
    6: "xor",
    7: "intr.smax",
    8: "intr.smin",
    9: "intr.umax",
    10: "intr.umin",
    11: "fadd",
    12: "fsub",
    13: "intr.maxnum",
    14: "intr.minnum",
    19: "intr.maximum",
    20: "intr.minimum",
}
_EXCHANGE = 0


def relax_workgroup_atomics(module: ir.Operation) -> None:
    """Rewrite them inside ``module``, whose pointers must still have their address spaces."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _REWRITES and str(op.operands[0].type) == _WORKGROUP_POINTER:
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    for op in found:
        _REWRITES[op.name](op)


def _read_modify_write(op: ir.Operation) -> None:
    pointer, operand = op.operands
    number = ir.IntegerAttr(op.attributes["bin_op"]).value
    if number != _EXCHANGE and number not in _OPERATIONS:
        return  # stays atomic
    build = LlvmBuilder(op)
    old = build.value("llvm.load", operand.type, pointer, ordering=_RELAXED)
    new = operand if number == _EXCHANGE else build.binary(_OPERATIONS[number], old, operand)
    build.op("llvm.store", [], [new, pointer], ordering=_RELAXED)
    replace(op, old)


def _compare_and_exchange(op: ir.Operation) -> None:
    pointer, expected, wanted = op.operands
    if not isinstance(expected.type, ir.IntegerType):
        return
    build = LlvmBuilder(op)
    old = build.value("llvm.load", expected.type, pointer, ordering=_RELAXED)
    same = build.value("llvm.icmp", "i1", old, expected, predicate="0 : i64")
    new = build.value("llvm.select", expected.type, same, wanted, old)
    build.op("llvm.store", [], [new, pointer], ordering=_RELAXED)
    result = build.value("llvm.mlir.undef", op.results[0].type)
    for position, value in enumerate((old, same)):
        result = build.value(
            "llvm.insertvalue", op.results[0].type, result, value, position=f"array<i64: {position}>"
        )
    replace(op, result)


_REWRITES = {"llvm.atomicrmw": _read_modify_write, "llvm.cmpxchg": _compare_and_exchange}
