"""Let neighbouring work-items share the quotient where a kernel divides its ids (delinearization).

Such a kernel computes row and column from one number: ``row = id / n``, ``column = id % n``. Work-items of a
row then have the same row and columns next to each other, but nothing in the code says so. Here a workgroup
runs in parts, in each of which all quotients are the same: a loop over the parts, in which the first
work-items do the work of those that are in the part. Nothing observes which work-item does it.

In a kernel that is one loop in steps of the grid, this is done in each iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial, reduce

from mlir import ir

from gpubuild.engine.backends.cpu.fission.grid_loops import run_together
from gpubuild.engine.backends.cpu.fission.item_code import copy_with
from gpubuild.engine.backends.cpu.fission.item_loops import if_op, if_then
from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS, sources_of
from gpubuild.engine.backends.cpu.fission.uniformity import (
    GROUP_IDS,
    ITEM_IDS,
    POSITIONS,
    VERSIONED,
    body_operations,
    is_id,
    is_pure,
    named,
    nested,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter, replace
from gpubuild.engine.ir.query import attributions, constant_integer, defining_op, scalar_bits

_QUOTIENTS = frozenset({"arith.divsi", "arith.divui", "arith.floordivsi"})
_REMAINDERS = frozenset({"arith.remsi", "arith.remui"})
_UNSIGNED = frozenset({"arith.divui", "arith.remui"})
_DIALECTS = frozenset({"arith", "cf", "complex", "index", "math", "memref", "scf", "ub", "vector"})
_MOVABLE = POSITIONS | GROUP_IDS | {"gpu.func", "gpu.printf", "gpu.return"}
_LEAST_BITS, _MOST_BITS = 32, 64  # of integers: narrower ones could overflow twice in a workgroup
_LEAST_DIVISOR = 16  # less would make parts in which too few work-items are neighbours
_MOST_OPERATIONS = 400  # in a kernel, which is compiled twice
_NUMBER = "gpubuild.division"  # on a division: its number


def delinearize_ids(function: ir.Operation) -> None:
    """Run a function that divides its ids in parts of equal quotients."""
    if not divided_ids(function):
        return
    block, loop = function.regions[0].blocks[0], _grid_loop(function)
    if loop is not None:
        block = _open(block, loop)
    sources = _Sources(block)
    _split(block, sources, [op for op in _divisions(function) if sources.can_divide(op)])


def divided_ids(function: ir.Operation) -> list[ir.Operation]:
    """Return the divisions of x plus something by something, both the same for all work-items.

    None where work-items may not change places, or where it would not pay.
    """
    if len(function.regions[0].blocks) != 1 or not (found := _divisions(function)):
        return []
    inside = nested(function)
    if len(inside) > _MOST_OPERATIONS or not all(map(_may_move, inside)) or attributions(function)[1]:
        return []
    sources, loop = _Sources(function.regions[0].blocks[0]), _grid_loop(function)
    if loop is not None:
        sources.x.add(loop.regions[0].blocks[0].arguments[0])
    return [op for op in found if sources.can_divide(op)]


def _divisions(function: ir.Operation) -> list[ir.Operation]:
    return named(function, _QUOTIENTS | _REMAINDERS)


def _grid_loop(function: ir.Operation) -> ir.Operation | None:
    """Return the loop from x plus something on that a kernel consists of, if it does."""
    entry = function.regions[0].blocks[0]
    *before, loop = body_operations(entry) or [function]
    if loop.name != "scf.for" or loop.results or loop.attributes or not all(map(_is_value, before)):
        return None
    sources = _Sources(entry)
    lower, *bounds = loop.operands
    # A narrower integer could overflow between the work-items.
    is_whole = not any(op.name in CASTS for op in sources_of(lower, CASTS | {"arith.addi"}))
    is_whole = is_whole and isinstance(lower.type, ir.IndexType)
    return loop if is_whole and sources.x_plus(lower) and all(map(sources.shared, bounds)) else None


def _is_value(op: ir.Operation) -> bool:
    """Return whether ``op`` only computes, and may do so where the kernel does not reach it."""
    return op.name in POSITIONS or (is_pure(op) and not _may_trap(op))


def _open(entry: ir.Block, loop: ir.Operation) -> ir.Block:
    """Let all work-items run an iteration of ``loop`` together, with all code of the kernel inside.

    Returns the body. Its counter is that of the first work-item.
    """
    shared = _Sources(entry).shared
    own = [op for op in body_operations(entry) if op != loop and not all(map(shared, op.results))]
    emit = Emitter(loop)
    body = run_together(loop, _at(loop.operands[0], emit.constant(0), emit), "x")
    _, first, *_ = body.operations
    for op in own:
        op.move_before(first.operation)
    return body


def _may_move(op: ir.Operation) -> bool:
    """Return whether another work-item can run ``op``: no other ids, no private memory, no meeting."""
    if op.name == "memref.alloca":
        return False
    return op.name in _MOVABLE or op.name.partition(".")[0] in _DIALECTS


class _Sources:
    """What the values of ``block`` are computed from: a kernel's, or that of a loop which all run together.

    ``x`` are values that are x plus a shared one by other reasons than what computes them.
    """

    def __init__(self, block: ir.Block) -> None:
        self.shared = cache(self._is_shared)
        self.x_plus = cache(self._is_x_plus)
        self.x: set[ir.Value] = set()
        self._block = block

    def can_divide(self, op: ir.Operation) -> bool:
        dividend, divisor = op.operands
        constant = constant_integer(divisor)
        is_large = constant is None or constant >= _LEAST_DIVISOR
        return is_large and self.shared(divisor) and self.x_plus(dividend)

    def _is_x_plus(self, value: ir.Value) -> bool:
        """Return whether ``value`` is x plus a shared value, in integers of 32 to 64 bits."""
        op = defining_op(value)
        if value in self.x:
            return True
        if op is None or not _LEAST_BITS <= scalar_bits(value.type) <= _MOST_BITS:
            return False
        if op.name in CASTS:
            return self.x_plus(op.operands[0])
        if op.name != "arith.addi":
            return is_id(op, "x")
        left, right = op.operands
        return (self.x_plus(left) and self.shared(right)) or (self.shared(left) and self.x_plus(right))

    def _is_shared(self, value: ir.Value) -> bool:
        """Return whether all work-items compute the same ``value``, and can before what the block does."""
        op = defining_op(value)
        if op is None:
            return bool(value.owner == self._block or value.owner.owner.operation.name == "gpu.func")
        if op.name in ITEM_IDS or not is_pure(op) or not all(map(self.shared, op.operands)):
            return False
        # A division may be by zero where the kernel does not reach it.
        return op.block == self._block or not _may_trap(op)


def _may_trap(op: ir.Operation) -> bool:
    return "div" in op.name or "rem" in op.name


def _split(block: ir.Block, sources: _Sources, divisions: Sequence[ir.Operation]) -> None:
    """Move the code of ``block`` into a loop over parts. The old code runs where none can be made."""
    numbers: dict[tuple[ir.Value, ...], int] = {}
    for op in divisions:
        number = numbers.setdefault((*op.operands, op.name in _UNSIGNED), len(numbers))
        op.attributes[_NUMBER] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    own = [op for op in body_operations(block) if not op.results or not all(map(sources.shared, op.results))]
    own = [op for op in own if op.name != "gpu.barrier"]
    emit = Emitter(terminator(block))
    size, zero = emit.dimension("block_dim", "x"), emit.constant(0)
    last = emit.binary("arith.subi", size, emit.constant(1))
    least = emit.constant(_LEAST_DIVISOR)
    fractions, conditions = [], []
    for dividend, by, unsigned in numbers:
        first, end = (_widened(_at(dividend, x, emit), unsigned, emit) for x in (zero, last))
        divisor = _widened(_at(by, zero, emit), unsigned, emit)
        fractions.append((first, divisor))
        conditions += [
            emit.compare(Compare.SGE, first, zero),
            emit.compare(Compare.SGE, end, first),  # no overflow, in 64 bits and in fewer
            emit.compare(Compare.EQ, emit.binary("arith.subi", end, first), last),
            emit.compare(Compare.SGE, divisor, least),
        ]
    condition = reduce(partial(emit.binary, "arith.andi"), conditions)
    both = if_op(emit, condition, [], 2)
    both.attributes[VERSIONED] = ir.UnitAttr.get()
    together, apart = (terminator(region.blocks[0]) for region in both.regions)
    for op in own:
        op.move_before(apart)

    index = zero.type
    loop = Emitter(together).op("scf.while", [zero], [index], regions=2)
    before, after = (region.blocks.append(index, arg_locs=[loop.location]) for region in loop.regions)
    test, inside = emit.inside(before), emit.inside(after)
    more = test.compare(Compare.SLT, before.arguments[0], size)
    test.op("scf.condition", [more, before.arguments[0]], [])
    start = after.arguments[0]
    inside.op("gpu.barrier", [], [])  # all work-items are in the same part
    count = inside.binary("arith.subi", size, start)
    known = []
    for first, divisor in fractions:
        dividend = inside.binary("arith.addi", first, start)
        quotient = inside.binary("arith.divui", dividend, divisor)
        rest = inside.binary("arith.subi", dividend, inside.binary("arith.muli", quotient, divisor))
        count = inside.binary("arith.minsi", count, inside.binary("arith.subi", divisor, rest))
        known.append((quotient, rest))
    x = inside.dimension("thread_id", "x")
    end = if_then(inside, inside.compare(Compare.ULT, x, count))
    inside.op("scf.yield", [inside.binary("arith.addi", start, count)], [])

    Emitter(end).inline(apart.block, [])
    _move(end, start, known)
    for op in divisions:
        del op.attributes[_NUMBER]
    _merge_check(end)


def _move(end: ir.Operation, start: ir.Value, known: Sequence[tuple[ir.Value, ir.Value]]) -> None:
    """Let a work-item x do, up to ``end``, the work of the one at ``start`` + x.

    ``known`` has the quotient of the part for each division, and the remainder of its first work-item.
    """
    part = end.parent.operation
    x = Emitter(part).dimension("thread_id", "x")
    inside = nested(part)
    ids = [op for op in inside if is_id(op, "x")]
    divisions = [op for op in inside if _NUMBER in op.attributes]  # others may be erased with them
    for op in ids:
        moved = Emitter(end).op("arith.addi", [op.results[0], start], [start.type])
        moved.move_after(op)
        op.results[0].replace_all_uses_except(moved.results[0], moved)
    for op in divisions:
        quotient, rest = known[ir.IntegerAttr(op.attributes[_NUMBER]).value]
        at = Emitter(op)
        _replace(op, quotient if op.name in _QUOTIENTS else at.binary("arith.addi", x, rest), at)


def _merge_check(end: ir.Operation) -> None:
    """Make one test of that for a part, which ``end`` ends, and a bounds check around all the work in it."""
    part = end.parent.operation
    *before, check = body_operations(end.block)
    is_check = check.name == "scf.if" and not check.results and not check.regions[1].blocks
    if not is_check or not all(map(_is_value, before)):
        return
    for op in before:
        op.move_before(part)
    part.operands[0] = Emitter(part).binary("arith.andi", part.operands[0], check.operands[0])
    for op in body_operations(check.regions[0].blocks[0]):
        op.move_before(end)
    check.erase()


def _widened(value: ir.Value, unsigned: bool, emit: Emitter) -> ir.Value:
    """Convert an operand of a division to an index."""
    if isinstance(value.type, ir.IndexType):
        return value
    cast = "arith.index_castui" if unsigned else "arith.index_cast"
    return emit.value(cast, [value], ir.IndexType.get())


def _replace(op: ir.Operation, value: ir.Value, emit: Emitter) -> None:
    """Replace a division by ``value``, an index, and what it is as an index."""
    kind = op.results[0].type
    if isinstance(kind, ir.IndexType):
        emit.replace(value)
        return
    extensions = (
        {"arith.index_castui"} if op.name in _UNSIGNED else {"arith.index_cast", "arith.index_castui"}
    )
    for user in [use.owner.operation for use in op.results[0].uses]:
        if user.name in extensions:
            replace(user, value)
    emit.replace(emit.value("arith.index_cast", [value], kind))


def _at(value: ir.Value, x: ir.Value, emit: Emitter) -> ir.Value:
    """Compute ``value``, a shared one or x plus a shared one, for the work-item ``x`` of the workgroup."""
    op = defining_op(value)
    if op is None:
        return value
    if op.name == "gpu.thread_id":
        return x
    if op.name == "gpu.global_id":
        before = emit.binary("arith.muli", emit.dimension("block_id", "x"), emit.dimension("block_dim", "x"))
        return emit.binary("arith.addi", before, x)
    copy = copy_with(op, [_at(operand, x, emit) for operand in op.operands], emit)
    return copy.results[list(op.results).index(value)]
