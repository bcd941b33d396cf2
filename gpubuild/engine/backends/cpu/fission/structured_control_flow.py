"""Structured control flow around barriers becomes ``scf.if``, ``scf.for`` and ``scf.while``.

Fission knows these three. Other structured operations are left where no barrier is inside.

Lifting: branches between blocks become structured control flow, which fission can take on.

Upstream's ``lift-cf-to-scf`` does it, on a ``func.func``, which a kernel is made for as long as that takes.

Loop counters: loops that count in integers of another type count in ``index`` instead.

Fission rebuilds loops and computes with their counters: it knows those of type ``index`` only.
"""

from __future__ import annotations

from itertools import pairwise

from mlir import ir
from mlir.passmanager import PassManager

from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    Uniformity,
    collective_ops,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.workarounds import keep_narrow_casts

_PASSES = keep_narrow_casts("func.func(lift-cf-to-scf,canonicalize,cse)")
_RETURNS = {"gpu.return": "func.return", "func.return": "gpu.return"}


def has_branches(function: ir.Operation) -> bool:
    """Return whether something in ``function`` consists of several blocks."""
    return any(len(region.blocks) > 1 for op in nested(function) for region in op.regions)


def lift_branches(function: ir.Operation) -> None:
    """Make one block of the body of a gpu.func or func.func.

    Raises ``CannotFissionError`` if it cannot be.
    """
    if not has_branches(function):
        return
    if function.name == "func.func":
        _run(function)
        return
    emit = Emitter(function)
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attributes = {
        "sym_name": ir.StringAttr.get(f"{function.attributes['sym_name'].value}.lifted"),
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
        end = block.operations[len(block.operations) - 1].operation
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


_INDEX_BITS = 64


def count_in_indices(function: ir.Operation) -> None:
    """Rewrite each such ``scf.for`` in ``function``, where a counter stays below the bound of its own type.

    Raises ``CannotFissionError`` for counters that no index holds.
    """
    for op in nested(function):
        if op.name == "scf.for" and not isinstance(op.operands[0].type, ir.IndexType):
            _rewrite(op)


def _rewrite(loop: ir.Operation) -> None:
    kind = loop.operands[0].type
    if kind.width > _INDEX_BITS:
        raise CannotFissionError(f"a loop that counts in {kind}")
    index = ir.IndexType.get()
    widen = "arith.index_castui" if "unsignedCmp" in loop.attributes else "arith.index_cast"
    emit = Emitter(loop)
    bounds = [_index(value, widen, emit) for value in list(loop.operands)[:3]]
    carried = list(loop.operands)[3:]
    attributes = {name: loop.attributes[name] for name in loop.attributes}
    kinds = [value.type for value in carried]
    new = emit.op("scf.for", [*bounds, *carried], kinds, attributes, regions=1)
    body = loop.regions[0].blocks[0]
    counter, *arguments = list(body.arguments)
    block = new.regions[0].blocks.append(index, *kinds, arg_locs=[loop.location] * (1 + len(kinds)))
    inside = emit.inside(block)
    for use in list(counter.uses):  # most are casts, which would be in the way of what is known of places
        user = use.owner.operation
        if user.name == widen and isinstance(user.results[0].type, ir.IndexType):
            Emitter(user).replace(block.arguments[0])
    if any(True for _ in counter.uses):
        narrow = inside.op("arith.index_cast", [block.arguments[0]], [kind]).results[0]
        counter.replace_all_uses_with(narrow)
    end = terminator(body)
    last = inside.op("scf.yield", list(end.operands), [])
    for op in [one.operation for one in body.operations]:
        if op != end:
            op.move_before(last)
    for old, value in zip(arguments, list(block.arguments)[1:], strict=True):
        old.replace_all_uses_with(value)
    for old, value in zip(loop.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    loop.erase()


def _index(value: ir.Value, widen: str, emit: Emitter) -> ir.Value:
    """Convert a bound to an index; a constant stays one."""
    if not isinstance(value.owner, ir.Block) and value.owner.operation.name == "arith.constant":
        number = ir.IntegerAttr(value.owner.operation.attributes["value"]).value
        if widen == "arith.index_castui":
            number %= 1 << value.type.width
        return emit.constant(number)
    return emit.op(widen, [value], [ir.IndexType.get()]).results[0]


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
