"""Find loops of a kernel that run faster around the loop over work-items than inside it.

A loop inside that over work-items keeps LLVM from vectorising over work-items, as it vectorises innermost
loops only. Where all work-items run the same iterations, or start at different ones and have the same step,
a chunk of work-items may run one iteration after the other together. That pays when their accesses to
memory are then next to each other, or when they only compute with elements that all of them load.
chunk_code builds such loops, and vector_loops those which only load and compute.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence, Set
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.uniformity import (
    ITEM_IDS,
    POSITIONS,
    Uniformity,
    body_operations,
    is_id,
    is_pure,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.ir.query import constant_integer, defining_op, is_outside, scalar_bits

_UNROLLED = 32  # iterations of a loop that LLVM unrolls, with equally good code
_MOST_UNROLLED = 400  # operations of all iterations together
_LONG = frozenset({"f16", "bf16"})  # types whose operations may be so long that LLVM does not unroll
_SUMS = {"arith.addi": 1, "arith.subi": -1}
CASTS = frozenset({"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"})
_SIGNED_CASTS = frozenset({"arith.index_cast", "arith.extsi"})
_ELEMENTS = frozenset({"bf16", "f16", "f32", "f64", "i8", "i16", "i32", "i64"})  # of vectors
_INDICES = frozenset({"i1", "index"})
_MOST_IN_VECTORS = 256  # operations: longer loops hardly gain, and take LLVM long with a copy for each strip
_LEAST_BITS = 8  # narrower integers could overflow several times in a chunk of 64 work-items
_CHEAP = frozenset({"math.absf", "math.fma", "math.rsqrt", "math.sqrt"})
_LEAST_ROW = 16  # iterations of a loop that reads a row for each work-item
_REORDERED = re.compile("fast>|reassoc")  # flags of sums that LLVM may compute in another order
_DIVISIONS = ("divs", "divu", "rem", "ceildiv", "floordiv")
_HOLD = frozenset({"scf.for", "scf.if"})
_FIRST_INDEX = {"memref.load": 1, "memref.store": 2}
UPPER_BOUNDS = {2: 3, 3: 3, 6: 7, 7: 7}  # arith's slt, sle, ult, ule → the ``<=`` of that kind


class Interchange:
    """The loops of one function; ``loops`` maps each to whether work-items start at different iterations.

    ``vectors`` are those of them which can be built in vectors, with the loops inside them. ``collective``
    are the operations around barriers, which run once for all work-items. ``guards`` are the bounds checks
    around such loops, which all work-items of most chunks pass.
    """

    def __init__(self, entry: ir.Block, collective: set[ir.Operation], uniformity: Uniformity) -> None:
        self.loops: dict[ir.Operation, bool] = {}
        self.vectors: set[ir.Operation] = set()
        self.guards: set[ir.Operation] = set()
        self._collective = collective
        self._uniformity = uniformity
        self._function = entry.owner.operation
        self._forget_values()
        self._block(entry)

    def switch_off(self) -> None:
        """Interchange no loop."""
        self.loops.clear()
        self.vectors.clear()
        self.guards.clear()
        self._forget_values()

    def _forget_values(self) -> None:
        """Clear the caches of properties of values, which depend on ``loops``."""
        self.uniform = cache(self._is_uniform)
        self.slope = cache(self._compute_slope)
        self.same_in_row = cache(self._is_same_in_row)
        self._is_bounds_check = cache(self._compares_bounds)

    def _block(self, block: ir.Block) -> None:
        for op in operations(block):
            if op in self._collective:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner)
            elif op.name == "scf.for":
                self._consider(op)
            elif op.name == "scf.if" and not len(op.results) and not len(op.regions[1].blocks):
                self._guard(op)

    def _guard(self, op: ir.Operation) -> None:
        before = len(self.loops)
        if self._is_bounds_check(op.operands[0]):
            self._block(op.regions[0].blocks[0])
        if len(self.loops) > before:
            self.guards.add(op)

    def _compares_bounds(self, value: ir.Value) -> bool:
        if self.uniform(value):
            return True
        op = defining_op(value)
        if op is None:
            return False
        if op.name == "arith.andi":
            return all(map(self._is_bounds_check, op.operands))
        if op.name != "arith.cmpi" or ir.IntegerAttr(op.attributes["predicate"]).value not in UPPER_BOUNDS:
            return False
        low, high = op.operands
        return self.uniform(high) and all(self.slope(low, axis) in (0, 1) for axis in "xy")

    def _consider(self, op: ir.Operation) -> bool:
        """Add ``op``, and loops directly in it, if that pays."""
        lower, upper, step = list(op.operands)[:3]
        if not (self.uniform(upper) and self.uniform(step)) or "unsignedCmp" in op.attributes:
            return False
        strided = not self.uniform(lower)
        if (strided and not self._begins_at_x(lower)) or _is_short(op) or needs_item(op):
            return False
        if not strided and self._consider_vectors(op):
            return True
        self.loops[op] = strided
        self._forget_values()
        pays = False
        for inner in operations(op.regions[0].blocks[0]):
            if inner.name == "scf.for":
                pays |= self._consider(inner)
        good, bad = self._accesses(op, strided=strided)
        if bad or not (pays or good or (not strided and self._only_computes(op))):
            self._forget(op)
            return False
        return True

    def _begins_at_x(self, lower: ir.Value) -> bool:
        """Return whether ``lower`` is the work-item's x plus something that all rows of a chunk share."""
        return self.slope(lower, "x") == 1 and self.slope(lower, "y") == 0

    def _consider_vectors(self, op: ir.Operation) -> bool:
        """Add ``op``, and all loops in it, if they can be built in vectors."""
        inside = nested(op)
        if len(inside) > _MOST_IN_VECTORS:
            return False
        loops = [inner for inner in inside if inner.name == "scf.for"]
        self.vectors.add(op)
        self.loops |= dict.fromkeys(loops, False)
        self._forget_values()
        body = [inner for inner in inside if inner.name not in {"scf.for", "scf.yield"}]
        if all(map(self._is_vector_loop, loops)) and all(map(self._is_vector_operation, body)):
            return True
        self.vectors.discard(op)
        for loop in loops:
            del self.loops[loop]
        self._forget_values()
        return False

    def _is_vector_loop(self, op: ir.Operation) -> bool:
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        if "unsignedCmp" in op.attributes or not all(map(self.uniform, bounds)) or not initial:
            return False
        carried = [*initial, *terminator(op.regions[0].blocks[0]).operands]
        return all(str(value.type) in _ELEMENTS and not self._jumps(value) for value in carried)

    def _is_vector_operation(self, op: ir.Operation) -> bool:
        if op.name == "memref.load":
            return self._is_vector_load(op)
        if not is_pure(op) or len(op.results) != 1:
            return False
        if all(map(self.same_in_row, op.operands)) or self.slope(op.results[0], "x") is not None:
            return True
        values = (*op.operands, *op.results)
        return _is_cheap(op) and all(
            str(v.type) in _ELEMENTS | _INDICES and not self._jumps(v) for v in values
        )

    def _is_vector_load(self, op: ir.Operation) -> bool:
        memory, *indices = op.operands
        if not self.uniform(memory) or str(op.results[0].type) not in _ELEMENTS or len(op.attributes):
            return False
        if all(map(self.same_in_row, indices)):
            return True
        strides, _ = ir.MemRefType(memory.type).get_strides_and_offset()
        return strides[-1] == 1 and (self._is_of_neighbours(indices) or self.reads_rows(op))

    def _is_of_neighbours(self, indices: Sequence[ir.Value]) -> bool:
        """Return whether elements are next to each other for neighbours in x."""
        slopes = [self.slope(index, "x") for index in indices]
        jumps = any(self._jumps(index) and self.may_jump(_before_extension(index)) for index in indices)
        return slopes[-1] == 1 and not any(slopes[:-1]) and not jumps

    def reads_rows(self, op: ir.Operation) -> bool:
        """Return whether a load of ``vectors`` has a row of elements for each work-item.

        They are next to each other for following iterations of the loop around it.
        """
        loop = op.parent.operation
        memory, *indices = op.operands
        if loop.name != "scf.for" or all(map(self.same_in_row, indices)) or self._is_of_neighbours(indices):
            return False
        lower, upper, step = (constant_integer(value) for value in list(loop.operands)[:3])
        is_short = lower is not None and upper is not None and upper - lower < _LEAST_ROW
        if step != 1 or is_short or not is_outside(memory, loop) or not _keeps_order(loop):
            return False
        growth = [self._growth(_before_extension(index), loop) for index in indices]
        return growth[-1] == 1 and not any(growth[:-1]) and None not in growth

    def _growth(self, value: ir.Value, loop: ir.Operation) -> int | None:
        """Return the growth of an index from an iteration of ``loop`` to the next; ``None``: not known."""
        op = defining_op(value)
        if is_outside(value, loop):
            is_known = self.slope(value, "x") is not None or self.same_in_row(value)
            return None if self._jumps(value) or not (is_known or is_outside(value, self._nest(loop))) else 0
        if op is None:
            return 1 if value == loop.regions[0].blocks[0].arguments[0] else None
        if not is_pure(op) or op.parent.operation != loop:
            return None
        growth = [self._growth(operand, loop) for operand in op.operands]
        if op.name in _SUMS:
            left, right = growth
            return None if left is None or right is None else left + _SUMS[op.name] * right
        if op.name in CASTS and scalar_bits(op.operands[0].type) >= scalar_bits(value.type):
            return growth[0]
        return None if any(growth) or None in growth else 0

    def may_jump(self, value: ir.Value) -> bool:
        """Return whether a sum with a work-item's x may jump, as a narrower integer in it overflows."""
        return any(
            op.name in CASTS
            and scalar_bits(op.operands[0].type) < scalar_bits(op.results[0].type)
            and not self.uniform(op.results[0])
            for op in sources_of(value, CASTS | _SUMS.keys())
        )

    def _jumps(self, value: ir.Value) -> bool:
        """Return whether a value may not grow by its slope everywhere."""
        return self.slope(value, "x") is not None and not self.same_in_row(value) and self.may_jump(value)

    def _forget(self, op: ir.Operation) -> None:
        self.loops.pop(op, None)
        self.vectors.discard(op)
        self._forget_values()
        for inner in operations(op.regions[0].blocks[0]):
            if inner in self.loops:
                self._forget(inner)

    def _accesses(self, op: ir.Operation, *, strided: bool) -> tuple[int, int]:
        """Count accesses next to each other for neighbouring work-items, and for following iterations."""
        counter = op.regions[0].blocks[0].arguments[0]
        good = bad = 0
        for access in _without_loops(op.regions[0].blocks[0]):
            first = _FIRST_INDEX.get(access.name)
            if first is None or len(access.operands) == first:
                continue
            indices = list(access.operands)[first:]
            slopes = [self.slope(index, "x") for index in indices]
            if slopes[-1] == 1 and not any(slopes[:-1]):
                good += 1
            elif not strided and any(slope != 0 for slope in slopes) and _follows(indices[-1], counter):
                bad += 1
        return good, bad

    def _only_computes(self, op: ir.Operation) -> bool:
        """Return whether the iterations carry values computed from what all work-items load together."""
        return len(op.results) > 0 and all(
            is_pure(inner)
            or _is_select(inner)
            or (inner.name == "memref.load" and all(map(self.uniform, list(inner.operands)[1:])))
            for inner in body_operations(op.regions[0].blocks[0])
        )

    def _is_uniform(self, value: ir.Value) -> bool:
        """Return whether all work-items that run an iteration together have the same ``value``."""
        owner = value.owner
        block = owner if isinstance(owner, ir.Block) else owner.operation.block
        around = block.owner.operation
        if around == self._function or around in self._collective:
            return self._uniformity.uniform(value)
        if isinstance(owner, ir.Block):
            return around in self.loops and not self.loops[around] and value == block.arguments[0]
        op = owner.operation
        return is_pure(op) and op.name not in ITEM_IDS and all(map(self.uniform, op.operands))

    def _is_same_in_row(self, value: ir.Value) -> bool:
        """Return whether neighbours in x have the same ``value``, in loops of ``vectors`` also if loaded."""
        if self.uniform(value) or self.slope(value, "x") == 0:
            return True
        op = defining_op(value)
        if op is None or op.name in ITEM_IDS:
            return False
        loaded = op.name == "memref.load" and self._is_in_vectors(op)
        return (loaded or is_pure(op)) and all(map(self.same_in_row, op.operands))

    def _is_in_vectors(self, op: ir.Operation) -> bool:
        return self._nest(op) in self.vectors

    def _nest(self, op: ir.Operation) -> ir.Operation:
        """Return the loop of ``vectors`` around ``op``, or that is ``op``, if there is one."""
        while op not in self.vectors and op != self._function:
            op = op.parent.operation
        return op

    def _compute_slope(self, value: ir.Value, axis: str) -> int | None:
        """Return the growth of ``value`` from a work-item to the next on ``axis``; ``None``: not known."""
        if self.uniform(value):
            return 0
        owner = value.owner
        if isinstance(owner, ir.Block):
            around = owner.owner.operation
            strided = self.loops.get(around) and value == owner.arguments[0]
            return None if not strided else 1 if axis == "x" else 0
        op = owner.operation
        if op.name in POSITIONS:
            return 1 if is_id(op, axis) else 0
        if op.name in CASTS:
            narrow = min(map(scalar_bits, (op.operands[0].type, value.type))) < _LEAST_BITS
            return None if narrow else self.slope(op.operands[0], axis)
        slopes = [self.slope(operand, axis) for operand in op.operands]
        if op.name in _SUMS:
            left, right = slopes
            # Jumps of two values, or one downwards, could make up for each other in a chunk.
            jumps = [slope != 0 and self.may_jump(o) for slope, o in zip(slopes, op.operands, strict=True)]
            is_mixed = any(jumps) and 0 not in slopes
            if left is None or right is None or is_mixed or (jumps[1] and op.name == "arith.subi"):
                return None
            return left + _SUMS[op.name] * right
        return 0 if op.name == "arith.muli" and not any(slope != 0 for slope in slopes) else None


def has_interchangeable_loop(kernel: ir.Operation) -> bool:
    """Return whether a kernel without barriers has loops to interchange."""
    entry = kernel.regions[0].blocks[0]
    if len(kernel.regions[0].blocks) != 1 or not any(o.name in _HOLD for o in operations(entry)):
        return False
    return bool(Interchange(entry, set(), Uniformity(entry, set())).loops)


def _before_extension(index: ir.Value) -> ir.Value:
    """Return the signed integer that is extended to ``index``, whose overflows need no care.

    Where it overflows, the index is negative, and such an access is undefined.
    """
    while (op := defining_op(index)) is not None and op.name in _SIGNED_CASTS:
        index = op.operands[0]
    return index


def sources_of(value: ir.Value, through: Set[str]) -> Iterator[ir.Operation]:
    """Return the ops named in ``through`` that ``value`` is computed by, each once."""
    pending, seen = [value], set()
    while pending:
        op = defining_op(pending.pop())
        if op is not None and op not in seen and op.name in through:
            seen.add(op)
            yield op
            pending.extend(op.operands)


def _keeps_order(loop: ir.Operation) -> bool:
    """Return whether ``loop`` carries a number whose rounding keeps LLVM from joining iterations itself."""
    return any(
        isinstance(value.type, ir.FloatType) and not _REORDERED.search(str(op.attributes.get("fastmath")))
        for value in terminator(loop.regions[0].blocks[0]).operands
        if (op := defining_op(value)) is not None
    )


def _without_loops(block: ir.Block) -> Iterator[ir.Operation]:
    for op in operations(block):
        yield op
        if op.name not in {"scf.for", "scf.while"}:
            for region in op.regions:
                for inner in region.blocks:
                    yield from _without_loops(inner)


def _is_select(op: ir.Operation) -> bool:
    """Return whether ``op`` is a ``scf.if`` of cheap operations, which LLVM turns into selects."""
    if op.name != "scf.if":
        return False
    inside = [inner for region in op.regions for block in region.blocks for inner in body_operations(block)]
    return all(_is_cheap(inner) or _is_select(inner) for inner in inside)


def _is_cheap(op: ir.Operation) -> bool:
    """Return whether work-items may compute ``op`` needlessly, as all do if some need it."""
    dialect, _, name = op.name.partition(".")
    return op.name in _CHEAP or (dialect == "arith" and not name.startswith(_DIVISIONS))


def _follows(value: ir.Value, counter: ir.Value) -> bool:
    """Return whether ``value`` is ``counter`` plus something."""
    sums = sources_of(value, CASTS | {"arith.addi"})
    return value == counter or any(operand == counter for op in sums for operand in op.operands)


def _is_short(op: ir.Operation) -> bool:
    if _unrolled_size(op) > _MOST_UNROLLED:
        return False
    return not any(str(result.type) in _LONG for inner in nested(op) for result in inner.results)


def _unrolled_size(op: ir.Operation) -> float:
    """Return the number of operations after loops are unrolled; infinite if LLVM does not unroll them."""
    size = sum(
        (
            _unrolled_size(inner)
            for region in op.regions
            for block in region.blocks
            for inner in operations(block)
        ),
        start=1.0,
    )
    if op.name != "scf.for":
        return math.inf if op.name == "scf.while" else size
    lower, upper, step = (constant_integer(value) for value in list(op.operands)[:3])
    if lower is None or upper is None or step is None or upper - lower > _UNROLLED * step:
        return math.inf
    return size * max(0, upper - lower) / step
