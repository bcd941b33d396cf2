"""Make values of private memory, so that loops which keep sums in it can run for many work-items together.

LLVM does the same later, but loops are interchanged before. Upstream's ``mem2reg`` follows branches between
blocks, and not structured loops: these become branches first, and are lifted again after it.
"""

from __future__ import annotations

from collections.abc import Set

from mlir import ir
from mlir.passmanager import PassManager

from gpubuild.engine.backends.cpu.fission.counted_loops import can_be_found, count_loops
from gpubuild.engine.backends.cpu.fission.structured_control_flow import lift_branches
from gpubuild.engine.backends.cpu.fission.uniformity import (
    body_operations,
    named,
    nested,
    terminator,
)
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op
from gpubuild.engine.ir.workarounds import disable_wrong_patterns

_PASSES = disable_wrong_patterns("gpu.func(convert-scf-to-cf,canonicalize,sroa,mem2reg,canonicalize)")
_MOST_ITERATIONS = 16  # of a loop that is unrolled, so that its indices are constants
_MOST_OPERATIONS = 2048  # after that
_FIRST_INDEX = {"memref.load": 1, "memref.store": 2}


def promote_private_memory(function: ir.Operation) -> None:
    """Replace private memory of a workgroup function by values, and unroll the short loops over it."""
    if not has_private_sums(function):
        return
    for loop in _short_loops(function):
        _unroll(loop)
    with function.context:
        PassManager.parse(_PASSES).run(function)
    lift_branches(function)
    count_loops(function)


def has_private_sums(function: ir.Operation) -> bool:
    """Return whether loops use private memory that can become values, while they stay ``scf.for``."""
    memories = named(function, {"memref.alloca"})
    loops = named(function, {"scf.for"}) if memories else []
    if not loops or named(function, {"scf.parallel"}) or not all(map(can_be_found, loops)):
        return False
    short = _short_loops(function)
    if _size(function, set(short)) > _MOST_OPERATIONS:
        return False
    counters = {loop.regions[0].blocks[0].arguments[0] for loop in short}
    long = [inner for loop in loops if loop not in short for inner in nested(loop)]
    return any(
        all(_is_access(use.owner.operation, use.operand_number, counters) for use in memory.results[0].uses)
        and any(use.owner.operation in long for use in memory.results[0].uses)
        for memory in memories
    )


def _short_loops(function: ir.Operation) -> list[ir.Operation]:
    """Return the loops of few iterations that count through private memory, inner ones first."""
    return [op for op in nested(function) if op.name == "scf.for" and _iterations(op) and _indexes(op)]


def _iterations(loop: ir.Operation) -> range:
    """Return the counts of a loop of few iterations, else nothing."""
    lower, upper, step = (constant_integer(value) for value in list(loop.operands)[:3])
    counts = range(0) if lower is None or upper is None or not step else range(lower, upper, step)
    return counts if len(counts) <= _MOST_ITERATIONS else range(0)


def _indexes(loop: ir.Operation) -> bool:
    """Return whether the counter of a loop is an index of private memory."""
    for use in loop.regions[0].blocks[0].arguments[0].uses:
        user = use.owner.operation
        first = _FIRST_INDEX.get(user.name, 0)
        memory = defining_op(user.operands[first - 1]) if first and use.operand_number >= first else None
        if memory is not None and memory.name == "memref.alloca":
            return True
    return False


def _is_access(user: ir.Operation, operand: int, counters: Set[ir.Value]) -> bool:
    """Return whether private memory is loaded or stored, at indices that are constants after unrolling."""
    first = _FIRST_INDEX.get(user.name, 0)
    indices = list(user.operands)[first:]
    return operand == first - 1 and all(i in counters or constant_integer(i) is not None for i in indices)


def _size(op: ir.Operation, unrolled: Set[ir.Operation]) -> int:
    inner = (one.operation for region in op.regions for block in region.blocks for one in block)
    return (1 + sum(_size(one, unrolled) for one in inner)) * (len(_iterations(op)) if op in unrolled else 1)


def _unroll(loop: ir.Operation) -> None:
    emit = Emitter(loop)
    kind = loop.operands[0].type
    carried = list(loop.operands)[3:]
    for count in _iterations(loop):
        copy = emit.copy(loop)
        body = copy.regions[0].blocks[0]
        values = [emit.constant(count, kind), *carried]
        for argument, value in zip(body.arguments, values, strict=True):
            argument.replace_all_uses_with(value)
        carried = list(terminator(body).operands)
        for inner in body_operations(body):
            inner.move_before(loop)
        copy.erase()
    for result, value in zip(loop.results, carried, strict=True):
        result.replace_all_uses_with(value)
    loop.erase()
