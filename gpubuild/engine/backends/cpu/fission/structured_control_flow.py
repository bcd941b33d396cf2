"""Structured control flow around barriers becomes ``scf.if``, ``scf.for`` and ``scf.while``.

Fission knows these three. Other structured operations are left where no barrier is inside.
"""

from __future__ import annotations

from itertools import pairwise

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    Uniformity,
    collective_ops,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter

_COLLECTIVE = COLLECTIVE_OPS | {"gpu.shuffle"}


def simplify_structures(function: ir.Operation) -> None:
    """Make nested ``scf.if`` of ``scf.index_switch`` and nested ``scf.for`` of ``scf.parallel``."""
    while True:
        found = next((op for op in nested(function) if op.name in _REWRITES and _is_collective(op)), None)
        if found is None:
            return
        _REWRITES[found.name](found)


def open_divergent_loops(function: ir.Operation) -> None:
    """Make ``scf.while`` of each ``scf.for`` with bounds that are not known to be the same for all."""
    entry = function.regions[0].blocks[0]
    while True:
        inside, collective = _inside(function)
        uniformity = Uniformity(entry, collective)
        found = next((op for op in inside if op in collective and _is_divergent(op, uniformity)), None)
        if found is None:
            return
        _while_of_for(found)


def _inside(function: ir.Operation) -> tuple[list[ir.Operation], set[ir.Operation]]:
    """Return all operations in the function, and those that are or hold a collective one."""
    inside = [inner for op in operations(function.regions[0].blocks[0]) for inner in nested(op)]
    return inside, collective_ops(inside, function)


def _is_divergent(op: ir.Operation, uniformity: Uniformity) -> bool:
    return op.name == "scf.for" and not all(map(uniformity.uniform, list(op.operands)[:3]))


def _is_collective(op: ir.Operation) -> bool:
    return any(inner.name in _COLLECTIVE for inner in nested(op))


def _replace(op: ir.Operation, values: list[ir.Value]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _ifs_of_switch(op: ir.Operation) -> None:
    """One condition for each case, the default behind all of them."""
    kinds = [result.type for result in op.results]
    cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
    default, *bodies = list(op.regions)
    emit = Emitter(op)
    outer: list[ir.Value] | None = None
    if not cases:
        end = terminator(default.blocks[0])
        values = list(end.operands)
        for inner in list(operations(default.blocks[0])):
            if inner != end:
                inner.move_before(op)
        _replace(op, values)
        return
    for number, (case, body) in enumerate(zip(cases, bodies, strict=True)):
        same = emit.compare(Compare.EQ, op.operands[0], emit.constant(case))
        branch = emit.op("scf.if", [same], kinds, regions=2)
        body.blocks[0].append_to(branch.regions[0])
        if outer is None:
            outer = list(branch.results)
        else:
            emit.op("scf.yield", list(branch.results), [])
        if number == len(cases) - 1:
            default.blocks[0].append_to(branch.regions[1])
        else:
            emit = Emitter(op, location=op.location).inside(branch.regions[1].blocks.append())
    _replace(op, outer or [])


def _fors_of_parallel(op: ir.Operation) -> None:
    """Its iterations one after the other: one work-item runs them all."""
    lowers, uppers, steps, initial = _segments(op)
    body = op.regions[0].blocks[0]
    reduce = terminator(body)
    emit = Emitter(op)
    index, kinds = ir.IndexType.get(), [value.type for value in initial]
    carried, counters = initial, []
    loops: list[ir.Operation] = []
    for bounds in zip(lowers, uppers, steps, strict=True):
        loop = emit.op("scf.for", [*bounds, *carried], kinds, regions=1)
        places = [op.location] * (1 + len(kinds))
        block = loop.regions[0].blocks.append(index, *kinds, arg_locs=places)
        counters.append(block.arguments[0])
        carried = list(block.arguments)[1:]
        loops.append(loop)
        emit = Emitter(op).inside(block)
    end = emit.op("scf.yield", carried, [])
    for old, new in zip(body.arguments, counters, strict=True):
        old.replace_all_uses_with(new)
    for inner in list(operations(body)):
        if inner != reduce:
            inner.move_before(end)
    values = [_combine(reduce, n, carried[n], end) for n in range(len(kinds))]
    for number, value in enumerate(values):
        end.operands[number] = value
    for outer, inner_loop in pairwise(loops):
        Emitter(op).inside(outer.regions[0].blocks[0]).op("scf.yield", list(inner_loop.results), [])
    _replace(op, list(loops[0].results))


def _segments(op: ir.Operation) -> list[list[ir.Value]]:
    operands, start, parts = list(op.operands), 0, []
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        parts.append(operands[start : start + size])
        start += size
    return parts


def _combine(reduce: ir.Operation, number: int, total: ir.Value, end: ir.Operation) -> ir.Value:
    """Put the code of a reduction in front of ``end``; ``total`` and the iteration's value, combined."""
    block = reduce.regions[number].blocks[0]
    last = terminator(block)
    for argument, value in zip(block.arguments, (total, reduce.operands[number]), strict=True):
        argument.replace_all_uses_with(value)
    value = last.operands[0]
    for inner in list(operations(block)):
        if inner != last:
            inner.move_before(end)
    return value


def _while_of_for(op: ir.Operation) -> None:
    lower, upper, step, *initial = list(op.operands)
    kinds = [value.type for value in (lower, *initial)]
    emit = Emitter(op)
    loop = emit.op("scf.while", [lower, *initial], kinds, regions=2)
    before = loop.regions[0].blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
    here = emit.inside(before)
    predicate = Compare.ULT if "unsignedCmp" in op.attributes else Compare.SLT
    more = here.compare(predicate, before.arguments[0], upper)
    here.op("scf.condition", [more, *before.arguments], [])
    body = op.regions[0].blocks[0]
    end = terminator(body)
    body.append_to(loop.regions[1])
    there = Emitter(end)
    there.op("scf.yield", [there.binary("arith.addi", body.arguments[0], step), *end.operands], [])
    end.erase()
    _replace(op, list(loop.results)[1:])


_REWRITES = {"scf.index_switch": _ifs_of_switch, "scf.parallel": _fors_of_parallel}
