"""Tree rounds: reductions by halves in workgroup memory, which kernels write as a loop around a barrier.

    for n = N, N/2, N/4, ...:  { if x < n: s[x] = s[x] + s[x + n];  barrier }

In the last rounds few work-items do anything, and a loop over work-items costs more than what is in it.
What all of them leave in memory is computed in registers instead: each round adds the upper half of a
vector to its lower half, as the kernel says, to the bit. The first work-item does it, if the workgroup is
a row and has all work-items that the kernel counts on; otherwise the loop stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_loops import if_op
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.reductions.partial_sums import (
    FLOAT,
    INTEGER,
    PIECE_BITS,
    VECTOR_ELEMENTS,
    halve,
    load_pieces,
    split,
    store_pieces,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, scalar_bits

_MOST_PIECES = 32  # in registers at a time: half of them, after the first round
_COMBINING = frozenset({*FLOAT.values(), *INTEGER.values()})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tree:
    """``rounds`` rounds, the first one with ``half`` work-items."""

    loop: ir.Operation
    memory: ir.Value
    combining: ir.Operation
    upper_first: bool  # the operand of ``combining``
    half: int
    rounds: int
    lower: int  # bound and step of ``loop``
    step: int
    waits_first: bool  # whether there is a barrier in front of the condition

    def combine(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        attributes = {key: self.combining.attributes[key] for key in self.combining.attributes}
        operands = [high, low] if self.upper_first else [low, high]
        result: ir.Value = emit.op(self.combining.name, operands, [low.type], attributes).results[0]
        return result


def shorten_trees(function: ir.Operation) -> None:
    """Put the last rounds of each such loop in ``function``, in place, into registers."""
    for op in [op for top in operations(function.regions[0].blocks[0]) for op in nested(top)]:
        tree = _match(op) if op.name == "scf.for" else None
        if tree is not None:
            _shorten(tree)


def _shorten(tree: _Tree) -> None:
    loop, half = tree.loop, tree.half
    element = ir.MemRefType(tree.memory.type).element_type
    before = 0
    while 2 * half > _MOST_PIECES * PIECE_BITS // scalar_bits(element):
        half //= 2
        before += 1
    rounds = min(tree.rounds - before, half.bit_length())
    if rounds < 1:
        return
    emit = Emitter(loop)
    lower, kind = loop.operands[0], loop.results[0].type
    if before:
        lower = emit.constant(tree.lower + before * tree.step, lower.type)
        emit.copy(loop).operands[1] = lower
    sizes = [emit.dimension("block_dim", axis) for axis in "xyz"]
    one = emit.constant(1)
    row = emit.compare(Compare.EQ, emit.binary("arith.muli", sizes[1], sizes[2]), one)
    all_there = emit.compare(Compare.UGE, sizes[0], emit.constant(half))
    both = if_op(emit, emit.binary("arith.andi", row, all_there), [], 2)
    short, long = (Emitter(terminator(region.blocks[0])) for region in both.regions)

    if tree.waits_first:
        short.op("gpu.barrier", [], [])
    item = short.dimension("thread_id", "x")
    only = if_op(short, short.compare(Compare.EQ, item, short.constant(0)), [], 1)
    _in_registers(tree, half, rounds, Emitter(terminator(only.regions[0].blocks[0])))
    short.op("gpu.barrier", [], [])

    start = long.constant(half, kind)
    rest = long.copy(loop)
    rest.operands[0], rest.operands[3] = lower, start
    loop.results[0].replace_all_uses_with(emit.constant(tree.half >> tree.rounds, kind))
    loop.erase()


def _in_registers(tree: _Tree, half: int, rounds: int, emit: Emitter) -> None:
    pieces = load_pieces(tree.memory, 0, 2 * half, emit)
    for number in range(rounds):
        pieces = halve(pieces, tree.combine, emit)
        if number == rounds - 1 or half == 1:
            store_pieces(pieces, tree.memory, 0, emit)
            return
        half //= 2
        store_pieces(split(pieces, emit)[1], tree.memory, half, emit)  # the next round leaves these


def _match(loop: ir.Operation) -> _Tree | None:
    if len(loop.results) != 1:
        return None
    lower, upper, step, start = (constant_integer(value) for value in loop.operands)
    if lower is None or upper is None or not step or step < 0 or not start or start < 0:
        return None
    if start & (start - 1):
        return None
    body = loop.regions[0].blocks[0]
    size = body.arguments[1]
    end = terminator(body)
    ops = [op for op in operations(body) if op != end]
    branches = [op for op in ops if op.name == "scf.if"]
    if len(branches) != 1 or not _is_half(end.operands[0], size):
        return None
    branch = branches[0]
    inside = operations(branch.regions[0].blocks[0])
    stores = [op for op in inside if op.name == "memref.store"]
    if len(stores) != 1 or len(branch.results) or len(branch.regions[1].blocks):
        return None
    condition, following = branch.operands[0].owner, end.operands[0].owner.operation
    item = stores[0].operands[len(stores[0].operands) - 1]
    parts = _parts(stores[0], item, size)
    if parts is None or isinstance(condition, ir.Block) or not _is_below(condition.operation, item, size):
        return None
    combining, loads, place = parts
    ends = terminator(branch.regions[0].blocks[0])
    known = {condition.operation, branch, following, combining, *loads, place, stores[0], ends}
    barriers = [ops.index(op) for op in ops if op.name == "gpu.barrier"]
    if not barriers or any(op not in known and op.name != "gpu.barrier" for op in (*ops, *inside)):
        return None
    memory = stores[0].operands[1]
    rounds = max(0, -((lower - upper) // step))
    shape = ir.MemRefType(memory.type).shape
    if rounds < 1 or shape[0] < 2 * start:
        return None
    return _Tree(
        loop=loop,
        memory=memory,
        combining=combining,
        upper_first=combining.operands[0] != loads[0].results[0],
        half=start,
        rounds=rounds,
        lower=lower,
        step=step,
        waits_first=barriers[0] < ops.index(branch),
    )


def _parts(
    store: ir.Operation, item: ir.Value, size: ir.Value
) -> tuple[ir.Operation, list[ir.Operation], ir.Operation] | None:
    """The op that combines two elements, the loads of the lower and the upper one, and the latter's place."""
    value, memory = store.operands[0], store.operands[1]
    if not _is_plain(memory) or not _is_item(item) or isinstance(value.owner, ir.Block):
        return None
    combining = value.owner.operation
    if combining.name not in _COMBINING:
        return None
    loads = [operand.owner for operand in combining.operands]
    if any(isinstance(one, ir.Block) or one.operation.name != "memref.load" for one in loads):
        return None
    found = [one.operation for one in loads]
    if found[0].operands[1] != item:
        found.reverse()
    low, high = found
    if low == high or low.operands[0] != memory or high.operands[0] != memory or low.operands[1] != item:
        return None
    place = high.operands[1].owner
    if isinstance(place, ir.Block) or place.operation.name != "arith.addi":
        return None
    if set(place.operation.operands) != {item, size}:
        return None
    return combining, found, place.operation


def _is_plain(memory: ir.Value) -> bool:
    """Return whether it is a variable of the workgroup, of one dimension and a usual type."""
    kind = ir.MemRefType(memory.type)
    if kind.rank != 1 or not kind.has_static_shape or str(kind.element_type) not in VECTOR_ELEMENTS:
        return False
    if "workgroup" not in str(kind.memory_space) or kind.layout != ir.AffineMapAttr.get(
        ir.AffineMap.get_identity(1)
    ):
        return False
    owner = memory.owner
    if isinstance(owner, ir.Block):
        return bool(owner.owner.operation.name == "gpu.func")
    return bool(owner.operation.name == "memref.get_global")


def _is_item(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "gpu.thread_id":
        return False
    return "dim x" in str(value.owner.operation.attributes["dimension"])


def _is_below(condition: ir.Operation, item: ir.Value, size: ir.Value) -> bool:
    if condition.name != "arith.cmpi" or list(condition.operands) != [item, size]:
        return False
    return ir.IntegerAttr(condition.attributes["predicate"]).value in (Compare.SLT, Compare.ULT)


def _is_half(value: ir.Value, size: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    by = {"arith.shrui": 1, "arith.shrsi": 1, "arith.divui": 2, "arith.divsi": 2}.get(op.name)
    return by is not None and op.operands[0] == size and constant_integer(op.operands[1]) == by
