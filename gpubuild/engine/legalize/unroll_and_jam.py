"""Run the iterations of small parallel loops in a kernel at once, so that they share loads.

Upstream's lowering runs them one after the other. Here each operation is made for all iterations before the
next one, in common inner loops. Iterations under a condition are jammed where it is true for all of them.
"""

from __future__ import annotations

from itertools import chain, product
from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import constant_integer, is_outside, matching
from gpubuild.engine.legalize.state import Legalization

_MOST_ITERATIONS = 16
_MOST_OPERATIONS = 1024  # after jamming
_ON_VALUES = frozenset({"arith", "math", "index", "complex"})  # dialects
_OTHERS = frozenset({"memref.load", "memref.store", "memref.dim", "scf.yield", "scf.reduce", "affine.apply"})
_Values = dict[ir.Value, ir.Value]  # those of one iteration, by those of the loop


def can_be_jammed(loop: ir.Operation, iterations: int) -> bool:
    """Return whether a parallel loop of so many iterations can be unrolled and jammed.

    All operations are known, few, and bounds of inner loops come from outside.
    """
    branch = _condition(loop.regions[0].blocks[0])

    def is_known(op: ir.Operation) -> bool:
        if op.name == "scf.for":
            return all(is_outside(bound, loop) for bound in list(op.operands)[:3])
        is_own = op == loop or (branch is not None and op == branch)
        return is_own or op.name in _OTHERS or op.name.partition(".")[0] in _ON_VALUES

    inner = matching(loop, lambda _: True)
    return len(inner) * iterations <= _MOST_OPERATIONS and all(map(is_known, inner))


def _jam(loop: ir.Operation, _: Legalization) -> None:
    iterations = few_iterations(loop)
    body = loop.regions[0].blocks[0]
    if not iterations or not can_be_jammed(loop, len(iterations)):
        return
    branch = _condition(body)
    emit = Emitter(loop)
    numbers = {number: emit.constant(number) for number in sorted({*chain.from_iterable(iterations)})}
    values = [dict(zip(body.arguments, (numbers[n] for n in indices), strict=True)) for indices in iterations]
    if branch is None:
        _copy(emit, list(body)[:-1], values)
        loop.erase()
        return
    _copy(emit, list(body)[:-2], values)
    whole, *more = {known.get(branch.operands[0], branch.operands[0]): None for known in values}
    for condition in more:
        whole = emit.binary("arith.andi", whole, condition)
    choice = emit.op("scf.if", [whole], [], regions=2)
    jammed, single = (emit.inside(region.blocks.append()) for region in choice.regions)
    _copy(jammed, list(branch.regions[0].blocks[0])[:-1], values)
    jammed.op("scf.yield", [], [])
    single.op("scf.yield", [], [])
    loop.move_before(choice.regions[1].blocks[0].operations[0].operation)


def few_iterations(loop: ir.Operation) -> list[tuple[int, ...]]:
    """Return the indices of all iterations of a parallel loop: none if they are unknown or too many."""
    bounds = [constant_integer(value) for value in loop.operands]
    known = [bound for bound in bounds if bound is not None]
    if loop.results or len(known) < len(bounds):
        return []
    rank = len(known) // 3
    ranges = [range(known[n], known[rank + n], known[2 * rank + n]) for n in range(rank)]
    return list(product(*ranges)) if 1 < prod(map(len, ranges)) <= _MOST_ITERATIONS else []


def _condition(body: ir.Block) -> ir.Operation | None:
    """Return the ``scf.if`` around all that is not computed from values alone, if there is one."""
    inner = [op.operation for op in body][:-1]
    if not inner or inner[-1].name != "scf.if" or inner[-1].results or list(inner[-1].regions[1].blocks):
        return None
    on_values = (op.name.partition(".")[0] in _ON_VALUES for op in inner[:-1])
    return inner[-1] if all(on_values) else None


def _copy(emit: Emitter, operations: list[ir.OpView], iterations: list[_Values]) -> None:
    """Copy operations, each for all iterations before the next one, and once for equal operands."""
    for op in [op.operation for op in operations]:
        if op.name == "scf.for":
            _copy_loop(emit, op, iterations)
            continue
        copies: dict[tuple[ir.Value, ...], ir.Operation] = {}
        for known in iterations:
            operands = tuple(known.get(value, value) for value in op.operands)
            if operands not in copies:
                copies[operands] = emit.copy(op)
                for number, value in enumerate(operands):
                    copies[operands].operands[number] = value
            known.update(zip(op.results, copies[operands].results, strict=True))


def _copy_loop(emit: Emitter, loop: ir.Operation, iterations: list[_Values]) -> None:
    """Make one loop that carries the values of all iterations."""
    bounds, carried = list(loop.operands)[:3], list(loop.operands)[3:]
    starts = [known.get(value, value) for known in iterations for value in carried]
    kinds = [value.type for value in starts]
    new = emit.op("scf.for", [*bounds, *starts], kinds, dict(loop.attributes.items()), regions=1)
    old = loop.regions[0].blocks[0]
    block = new.regions[0].blocks.append(bounds[0].type, *kinds)
    index, *values = block.arguments
    for number, known in enumerate(iterations):
        own = values[number * len(carried) : (number + 1) * len(carried)]
        known.update(zip(old.arguments, [index, *own], strict=True))
    inside = emit.inside(block)
    *operations, end = old
    _copy(inside, operations, iterations)
    yielded = [known.get(value, value) for known in iterations for value in end.operation.operands]
    inside.op("scf.yield", yielded, [])
    for number, known in enumerate(iterations):
        own = list(new.results)[number * len(carried) : (number + 1) * len(carried)]
        known.update(zip(loop.results, own, strict=True))


JAM = rewriting("unroll-and-jam", {"scf.parallel": _jam})
