"""Compute the last iterations of reductions by halves in workgroup memory in registers.

    for n = N, N/2, N/4, ...:  { if x < n: s[x] = s[x] + s[x + n];  barrier }

In the last iterations few work-items work, and a loop over work-items costs more than its body. Instead the
first work-item adds the upper half of a vector to its lower half, with the same result to the bit, if the
workgroup is a row and large enough. Otherwise the loop stays.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.all_reduce import (
    FLOAT,
    INTEGER,
    PIECE_BITS,
    VECTOR_ELEMENTS,
    halve,
    load_pieces,
    split,
    store_pieces,
)
from gpubuild.engine.backends.cpu.fission.item_loops import if_else, if_then
from gpubuild.engine.backends.cpu.fission.uniformity import body_operations, is_id, is_pure, named, terminator
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op, scalar_bits
from gpubuild.support.frozen import frozen

_MOST_PIECES = 32  # half of them, after the first iteration, are in registers at a time
_HALVING = {"arith.shrui": 1, "arith.shrsi": 1, "arith.divui": 2, "arith.divsi": 2}
_COMBINING = frozenset({*FLOAT.values(), *INTEGER.values()})


@frozen
class _Tree:
    """A loop of a known number of ``iterations``, the first one with ``half`` work-items."""

    loop: ir.Operation
    memory: ir.Value
    combining: ir.Operation
    upper_first: bool  # the operand of ``combining``
    half: int
    iterations: int
    lower: int  # bound and step of ``loop``
    step: int
    waits_first: bool  # a barrier precedes the condition

    def combine(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        attributes = {key: self.combining.attributes[key] for key in self.combining.attributes}
        operands = [high, low] if self.upper_first else [low, high]
        return emit.op(self.combining.name, operands, [low.type], attributes).results[0]


def shorten_trees(function: ir.Operation) -> None:
    """Compute the last iterations of each such loop in ``function`` in registers."""
    for loop in named(function, {"scf.for"}):
        if (tree := _match(loop)) is not None:
            _shorten(tree)


def _shorten(tree: _Tree) -> None:
    loop, half = tree.loop, tree.half
    element = ir.MemRefType(tree.memory.type).element_type
    before = 0
    while 2 * half > _MOST_PIECES * PIECE_BITS // scalar_bits(element):
        half //= 2
        before += 1
    iterations = min(tree.iterations - before, half.bit_length())
    if iterations < 1:
        return
    emit = Emitter(loop)
    lower, kind = loop.operands[0], loop.results[0].type
    if before:
        lower = emit.constant(tree.lower + before * tree.step, lower.type)
        emit.copy(loop).operands[1] = lower
    sizes = [emit.dimension("block_dim", axis) for axis in "xyz"]
    one = emit.constant(1)
    row = emit.compare(Compare.EQ, emit.binary("arith.muli", sizes[1], sizes[2]), one)
    enough = emit.compare(Compare.UGE, sizes[0], emit.constant(half))
    short, long = map(Emitter, if_else(emit, emit.binary("arith.andi", row, enough)))

    if tree.waits_first:
        short.op("gpu.barrier", [], [])
    item = short.dimension("thread_id", "x")
    only = if_then(short, short.compare(Compare.EQ, item, short.constant(0)))
    _in_registers(tree, half, iterations, Emitter(only))
    short.op("gpu.barrier", [], [])

    start = long.constant(half, kind)
    rest = long.copy(loop)
    rest.operands[0], rest.operands[3] = lower, start
    loop.results[0].replace_all_uses_with(emit.constant(tree.half >> tree.iterations, kind))
    loop.erase()


def _in_registers(tree: _Tree, half: int, iterations: int, emit: Emitter) -> None:
    pieces = load_pieces(tree.memory, 0, 2 * half, emit)
    for number in range(iterations):
        pieces = halve(pieces, tree.combine, emit)
        if number == iterations - 1 or half == 1:
            store_pieces(pieces, tree.memory, 0, emit)
            return
        half //= 2
        store_pieces(split(pieces, emit)[1], tree.memory, half, emit)  # the next iteration keeps these


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
    ops, next_size = body_operations(body), terminator(body).operands[0]
    branches = [op for op in ops if op.name == "scf.if"]
    if len(branches) != 1 or not _is_half(next_size, size):
        return None
    branch = branches[0]
    inside = body_operations(branch.regions[0].blocks[0])
    stores = [op for op in inside if op.name == "memref.store"]
    if len(stores) != 1 or len(branch.results) or len(branch.regions[1].blocks):
        return None
    condition = defining_op(branch.operands[0])
    memory, item = stores[0].operands[1], stores[0].operands[-1]
    parts = _parts(stores[0], item, size)
    if parts is None or condition is None or not _is_below(condition, item, size):
        return None
    combining, loads, index = parts
    known = {condition, branch, defining_op(next_size), combining, *loads, index, stores[0]}
    barriers = [ops.index(op) for op in ops if op.name == "gpu.barrier"]
    if not barriers or any(op not in known and op.name != "gpu.barrier" for op in ops):
        return None
    if any(op not in known and not is_pure(op) for op in inside):
        return None
    iterations = max(0, -((lower - upper) // step))
    shape = ir.MemRefType(memory.type).shape
    if iterations < 1 or shape[0] < 2 * start:
        return None
    return _Tree(
        loop=loop,
        memory=memory,
        combining=combining,
        upper_first=combining.operands[0] != loads[0].results[0],
        half=start,
        iterations=iterations,
        lower=lower,
        step=step,
        waits_first=barriers[0] < ops.index(branch),
    )


def _parts(
    store: ir.Operation, item: ir.Value, size: ir.Value
) -> tuple[ir.Operation, list[ir.Operation], ir.Operation] | None:
    """Return the op that combines two elements, both loads, and the op that computes the upper index."""
    memory, combining = store.operands[1], defining_op(store.operands[0])
    if not _is_plain(memory) or not _is_item(item) or combining is None or combining.name not in _COMBINING:
        return None
    loads = [op for op in map(defining_op, combining.operands) if op is not None and op.name == "memref.load"]
    if len(loads) != 2:
        return None
    low, high = loads if loads[0].operands[1] == item else reversed(loads)
    if low == high or low.operands[0] != memory or high.operands[0] != memory or low.operands[1] != item:
        return None
    index = defining_op(high.operands[1])
    if index is None or index.name != "arith.addi" or set(index.operands) != {item, size}:
        return None
    return combining, [low, high], index


def _is_plain(memory: ir.Value) -> bool:
    """Return whether it is a variable of the workgroup, of one dimension and a common type."""
    kind = ir.MemRefType(memory.type)
    if kind.rank != 1 or not kind.has_static_shape or str(kind.element_type) not in VECTOR_ELEMENTS:
        return False
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(1))
    if "workgroup" not in str(kind.memory_space) or kind.layout != identity:
        return False
    op = defining_op(memory)
    if op is None:
        return bool(memory.owner.owner.operation.name == "gpu.func")
    return bool(op.name == "memref.get_global")


def _is_item(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "gpu.thread_id" and is_id(op, "x")


def _is_below(condition: ir.Operation, item: ir.Value, size: ir.Value) -> bool:
    if condition.name != "arith.cmpi" or list(condition.operands) != [item, size]:
        return False
    return ir.IntegerAttr(condition.attributes["predicate"]).value in (Compare.SLT, Compare.ULT)


def _is_half(value: ir.Value, size: ir.Value) -> bool:
    op = defining_op(value)
    if op is None or op.name not in _HALVING or op.operands[0] != size:
        return False
    return constant_integer(op.operands[1]) == _HALVING[op.name]
