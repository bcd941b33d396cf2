"""Make control flow around barriers ``scf.if``, ``scf.for`` over indices and ``scf.while``.

Fission knows these three. Other structured operations stay where no barrier is inside. Branches between
blocks are lifted by upstream's ``lift-cf-to-scf``, which works on a ``func.func``: the body of a kernel is
moved to one and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mlir import ir
from mlir.passmanager import PassManager

from gpubuild.engine.backends.cpu.fission.item_loops import for_loop, set_operands
from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    ITEM_IDS,
    Uniformity,
    all_operations,
    body_operations,
    collective_ops,
    named,
    nested,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import INDEX_BITS, constant_integer, symbol_name
from gpubuild.engine.ir.workarounds import disable_wrong_patterns
from gpubuild.engine.legalize.unroll_and_jam import few_iterations

_PASSES = disable_wrong_patterns("func.func(lift-cf-to-scf,canonicalize,cse)")
_RETURNS = {"gpu.return": "func.return", "func.return": "gpu.return"}


def hoist_ids(function: ir.Operation) -> None:
    """Read the ids of work-items at the entry of a kernel: in loops, they would keep these from vectors."""
    first = function.regions[0].blocks[0].operations[0].operation
    for op in named(function, ITEM_IDS):
        if op.parent != function:
            op.move_before(first)


def has_branches(function: ir.Operation) -> bool:
    """Return whether something in ``function`` consists of several blocks."""
    return any(len(region.blocks) > 1 for op in nested(function) for region in op.regions)


def lift_branches(function: ir.Operation) -> None:
    """Make one block of the body of a gpu.func or func.func, or raise ``CannotFissionError``."""
    if not has_branches(function):
        return
    if function.name == "func.func":
        _run(function)
        return
    emit = Emitter(function)
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attributes = {
        "sym_name": ir.StringAttr.get(f"{symbol_name(function)}.lifted"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
    }
    wrapper = emit.op("func.func", [], [], attributes, regions=1)
    _move_body(function, wrapper)
    try:
        _run(wrapper)
        _move_body(wrapper, function)
    finally:
        wrapper.erase()


def _move_body(source: ir.Operation, target: ir.Operation) -> None:
    blocks = source.regions[0].blocks
    while len(blocks):
        blocks[0].append_to(target.regions[0])
    for block in target.regions[0].blocks:
        end = terminator(block)
        if end.name in _RETURNS:
            Emitter(end).op(_RETURNS[end.name], list(end.operands), [])
            end.erase()


def _run(function: ir.Operation) -> None:
    with function.context:
        try:
            PassManager.parse(_PASSES).run(function)
        except ir.MLIRError as error:
            raise CannotFissionError("branches between blocks") from error
    if has_branches(function):
        raise CannotFissionError("branches between blocks")


def count_in_indices(function: ir.Operation) -> None:
    """Make each ``scf.for`` in ``function`` count in ``index``.

    Fission computes with counters of that type only. A counter stays below the bound of its own type.
    Raises ``CannotFissionError`` for counters that no index holds.
    """
    for op in named(function, {"scf.for"}):
        if not isinstance(op.operands[0].type, ir.IndexType):
            _rewrite(op)


def _rewrite(loop: ir.Operation) -> None:
    kind = loop.operands[0].type
    if kind.width > INDEX_BITS:
        raise CannotFissionError(f"a loop that counts in {kind}")
    widen = "arith.index_castui" if "unsignedCmp" in loop.attributes else "arith.index_cast"
    emit = Emitter(loop)
    lower, upper, step = (_index(value, widen, emit) for value in list(loop.operands)[:3])
    attributes = {name: loop.attributes[name] for name in loop.attributes}
    new = for_loop(emit, lower, upper, step, list(loop.operands)[3:], attributes)
    old_body, block = (one.regions[0].blocks[0] for one in (loop, new))
    counter, *arguments = list(old_body.arguments)
    last = set_operands(terminator(block), list(terminator(old_body).operands))
    for use in list(counter.uses):  # most are casts, which would hide what is known of positions
        user = use.owner.operation
        if user.name == widen and isinstance(user.results[0].type, ir.IndexType):
            Emitter(user).replace(block.arguments[0])
    if any(True for _ in counter.uses):
        narrow = Emitter(last).op("arith.index_cast", [block.arguments[0]], [kind]).results[0]
        counter.replace_all_uses_with(narrow)
    for op in body_operations(old_body):
        op.move_before(last)
    for old, value in zip(arguments, list(block.arguments)[1:], strict=True):
        old.replace_all_uses_with(value)
    _replace(loop, list(new.results))


def _index(value: ir.Value, widen: str, emit: Emitter) -> ir.Value:
    """Convert a bound to an index; a constant stays one."""
    number = constant_integer(value)
    if number is not None:
        if widen == "arith.index_castui":
            number %= 1 << value.type.width
        return emit.constant(number)
    return emit.op(widen, [value], [ir.IndexType.get()]).results[0]


_COLLECTIVE = COLLECTIVE_OPS | {"gpu.shuffle"}


def simplify_structures(function: ir.Operation) -> None:
    """Make nested ``scf.if`` of ``scf.index_switch`` and nested ``scf.for`` of ``scf.parallel``."""
    while True:
        found = next((op for op in named(function, _REWRITES) if named(op, _COLLECTIVE)), None)
        if found is None:
            return
        _REWRITES[found.name](found)


def parallel_loops(function: ir.Operation) -> list[ir.Operation]:
    """Return the small parallel loops, such as over tiles, that all work-items run as often."""
    loops = named(function, ("scf.parallel",))
    return [loop for loop in loops if loop.parent == function and few_iterations(loop)]


def separate_parallel_loops(function: ir.Operation) -> None:
    """Let all work-items run an iteration of a parallel loop before the next one, by a barrier in it.

    In one iteration work-items compute neighbouring elements, so that loops can be interchanged.
    """
    for loop in parallel_loops(function):
        Emitter(loop.regions[0].blocks[0].operations[0].operation).op("gpu.barrier", [], [])


def open_divergent_loops(function: ir.Operation) -> None:
    """Make ``scf.while`` of each ``scf.for`` around a barrier whose bounds may differ between work-items."""
    while True:
        ops = all_operations(function)
        collective = collective_ops(ops, function)
        uniformity = Uniformity(function.regions[0].blocks[0], collective)
        found = next((op for op in ops if op in collective and _is_divergent(op, uniformity)), None)
        if found is None:
            return
        _while_of_for(found)


def _is_divergent(op: ir.Operation, uniformity: Uniformity) -> bool:
    return op.name == "scf.for" and not all(map(uniformity.uniform, list(op.operands)[:3]))


def _replace(op: ir.Operation, values: Sequence[ir.Value]) -> None:
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def _ifs_of_switch(op: ir.Operation) -> None:
    """Make an ``scf.if`` for each case, with the next one or the default in its ``else``."""
    kinds = [result.type for result in op.results]
    cases = list(ir.DenseI64ArrayAttr(op.attributes["cases"]))
    default, *bodies = (region.blocks[0] for region in op.regions)
    emit = Emitter(op)
    outer: list[ir.Value] = list(terminator(default).operands)
    if not cases:
        for inner in body_operations(default):
            inner.move_before(op)
    for number, (case, body) in enumerate(zip(cases, bodies, strict=True)):
        same = emit.compare(Compare.EQ, op.operands[0], emit.constant(case))
        branch = emit.op("scf.if", [same], kinds, regions=2)
        body.append_to(branch.regions[0])
        if number == 0:
            outer = list(branch.results)
        else:
            emit.op("scf.yield", list(branch.results), [])
        if number == len(cases) - 1:
            default.append_to(branch.regions[1])
        else:
            emit = emit.inside(branch.regions[1].blocks.append())
    _replace(op, outer)


def _fors_of_parallel(op: ir.Operation) -> None:
    """Run the iterations one after the other: one work-item runs them all."""
    lowers, uppers, steps, initial = _segments(op)
    body = op.regions[0].blocks[0]
    reduce = terminator(body)
    emit = Emitter(op)
    carried, counters, loops = initial, [], []
    for bounds in zip(lowers, uppers, steps, strict=True):
        loops.append(for_loop(emit, *bounds, carried))
        counter, *carried = list(loops[-1].regions[0].blocks[0].arguments)
        counters.append(counter)
        emit = Emitter(terminator(counter.owner), location=op.location)
    for old, new in zip(body.arguments, counters, strict=True):
        old.replace_all_uses_with(new)
    end = terminator(counters[-1].owner)
    for inner in body_operations(body):
        inner.move_before(end)
    for number, value in enumerate(carried):
        end.operands[number] = _combine(reduce, number, value, end)
    for outer, inner_loop in pairwise(loops):
        set_operands(terminator(outer.regions[0].blocks[0]), list(inner_loop.results))
    _replace(op, list(loops[0].results))


def _segments(op: ir.Operation) -> list[list[ir.Value]]:
    operands, start, parts = list(op.operands), 0, []
    for size in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]):
        parts.append(operands[start : start + size])
        start += size
    return parts


def _combine(reduce: ir.Operation, number: int, total: ir.Value, end: ir.Operation) -> ir.Value:
    """Move the code of a reduction before ``end``; return ``total`` and the iteration's value, combined."""
    block = reduce.regions[number].blocks[0]
    for argument, value in zip(block.arguments, (total, reduce.operands[number]), strict=True):
        argument.replace_all_uses_with(value)
    for inner in body_operations(block):
        inner.move_before(end)
    return terminator(block).operands[0]


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
