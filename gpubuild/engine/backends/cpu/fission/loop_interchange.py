"""Interchange: which loops of a kernel run faster around the loop over work-items than inside it.

A loop that every work-item runs keeps LLVM from vectorising over work-items: it looks at innermost loops
only. Where all work-items run the same iterations, or each starts at an iteration of its own and goes on in
the same steps, some work-items at a time may run one iteration after the other together. That pays when the
accesses to memory then are next to each other. chunk_code builds such loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from mlir import ir

from gpubuild.engine.backends.cpu.fission.applicability import needs_item
from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, Uniformity, is_pure, operations
from gpubuild.engine.ir.query import constant_integer, scalar_bits

_UNROLLED = 32  # LLVM unrolls loops of a known number of iterations: what it does then is as good
_SUMS = {"arith.addi": 1, "arith.subi": -1}
CASTS = frozenset({"arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui", "arith.trunci"})
_LEAST_BITS = 8  # narrower integers could overflow several times in a chunk of 64 work-items
_HOLD = frozenset({"scf.for", "scf.if"})
_FIRST_INDEX = {"memref.load": 1, "memref.store": 2}
_IDS = frozenset({"gpu.thread_id", "gpu.global_id"})
UPPER_BOUNDS = {2: 3, 3: 3, 6: 7, 7: 7}  # arith's slt, sle, ult, ule → the ``<=`` of that kind


class Interchange:
    """The loops of one function; ``loops`` maps each to whether work-items start at different iterations.

    ``collective`` are the operations around barriers, which run once for all work-items anyway. ``guards``
    are the bounds checks around such loops: most chunks pass them as a whole.
    """

    def __init__(self, entry: ir.Block, collective: set[ir.Operation], uniformity: Uniformity) -> None:
        self.loops: dict[ir.Operation, bool] = {}
        self.guards: set[ir.Operation] = set()
        self._collective = collective
        self._uniformity = uniformity
        self._function = entry.owner.operation
        self._forget_values()
        self._block(entry)

    def switch_off(self) -> None:
        """Interchange nothing."""
        self.loops.clear()
        self.guards.clear()
        self._forget_values()

    def _forget_values(self) -> None:
        """What is known of values changes with ``loops``; until then each is looked at once."""
        self._same: dict[ir.Value, bool] = {}
        self._terms: dict[ir.Value, int | None] = {}
        self._slopes: dict[tuple[ir.Value, str], int | None] = {}
        self._checks: dict[ir.Value, bool] = {}

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

    def _is_bounds_check(self, value: ir.Value) -> bool:
        if value not in self._checks:
            self._checks[value] = self._asks_for_bounds(value)
        return self._checks[value]

    def _asks_for_bounds(self, value: ir.Value) -> bool:
        if self.uniform(value):
            return True
        if isinstance(value.owner, ir.Block):
            return False
        op = value.owner.operation
        if op.name == "arith.andi":
            return all(map(self._is_bounds_check, op.operands))
        if op.name != "arith.cmpi" or ir.IntegerAttr(op.attributes["predicate"]).value not in UPPER_BOUNDS:
            return False
        low, high = op.operands
        return self.uniform(high) and all(self._slope(low, axis) in (0, 1) for axis in "xy")

    def _consider(self, op: ir.Operation) -> bool:
        """Add ``op``, and loops directly in it, if that pays."""
        lower, upper, step = list(op.operands)[:3]
        if not (self.uniform(upper) and self.uniform(step)) or "unsignedCmp" in op.attributes:
            return False
        strided = not self.uniform(lower)
        if (strided and self._x_terms(lower) != 1) or _is_short(op) or needs_item(op):
            return False
        self.loops[op] = strided
        self._forget_values()
        pays = False
        for inner in operations(op.regions[0].blocks[0]):
            if inner.name == "scf.for":
                pays |= self._consider(inner)
        good, bad = self._accesses(op, strided=strided)
        if bad or not (pays or good):
            self._forget(op)
            return False
        return True

    def _forget(self, op: ir.Operation) -> None:
        self.loops.pop(op, None)
        self._forget_values()
        for inner in operations(op.regions[0].blocks[0]):
            if inner in self.loops:
                self._forget(inner)

    def _accesses(self, op: ir.Operation, *, strided: bool) -> tuple[int, int]:
        """How many accesses of neighbouring work-items, and of following iterations, are neighbours."""
        counter = op.regions[0].blocks[0].arguments[0]
        good = bad = 0
        for access in _without_loops(op.regions[0].blocks[0]):
            first = _FIRST_INDEX.get(access.name)
            if first is None or len(access.operands) == first:
                continue
            indices = list(access.operands)[first:]
            slopes = [self._slope(index) for index in indices]
            if slopes[-1] == 1 and not any(slopes[:-1]):
                good += 1
            elif not strided and any(slope != 0 for slope in slopes) and _follows(indices[-1], counter):
                bad += 1
        return good, bad

    def uniform(self, value: ir.Value) -> bool:
        """Whether all work-items of a workgroup that run an iteration together have the same ``value``."""
        if value not in self._same:
            self._same[value] = self._is_uniform(value)
        return self._same[value]

    def _is_uniform(self, value: ir.Value) -> bool:
        owner = value.owner
        block = owner if isinstance(owner, ir.Block) else owner.operation.block
        around = block.owner.operation
        if around == self._function or around in self._collective:
            return self._uniformity.uniform(value)
        if isinstance(owner, ir.Block):
            return around in self.loops and not self.loops[around] and value == block.arguments[0]
        op = owner.operation
        return is_pure(op) and op.name not in ITEM_IDS and all(map(self.uniform, op.operands))

    def _x_terms(self, value: ir.Value) -> int | None:
        """Return how often the work-item's x is in a sum of it and of uniform values."""
        if value not in self._terms:
            self._terms[value] = self._counted_x_terms(value)
        return self._terms[value]

    def _counted_x_terms(self, value: ir.Value) -> int | None:
        if self.uniform(value):
            return 0
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        if is_id(op, "x"):
            return 1
        if op.name == "arith.index_cast":
            return self._x_terms(op.operands[0])
        if op.name != "arith.addi":
            return None
        parts = [self._x_terms(operand) for operand in op.operands]
        return None if None in parts else sum(p for p in parts if p is not None)

    def _slope(self, value: ir.Value, axis: str = "x") -> int | None:
        """By how much ``value`` grows from a work-item to the next one on ``axis``; ``None``: not known."""
        if (value, axis) not in self._slopes:
            self._slopes[value, axis] = self._computed_slope(value, axis)
        return self._slopes[value, axis]

    def _computed_slope(self, value: ir.Value, axis: str) -> int | None:
        if self.uniform(value):
            return 0
        owner = value.owner
        if isinstance(owner, ir.Block):
            around = owner.owner.operation
            strided = self.loops.get(around) and value == owner.arguments[0]
            return None if not strided else 1 if axis == "x" else 0
        op = owner.operation
        if op.name in _IDS:
            return 1 if is_id(op, axis) else 0
        if op.name in CASTS:
            narrow = min(map(scalar_bits, (op.operands[0].type, value.type))) < _LEAST_BITS
            return None if narrow else self._slope(op.operands[0], axis)
        slopes = [self._slope(operand, axis) for operand in op.operands]
        if op.name in _SUMS:
            left, right = slopes
            return None if left is None or right is None else left + _SUMS[op.name] * right
        return 0 if op.name == "arith.muli" and not any(slope != 0 for slope in slopes) else None


def has_interchangeable_loop(kernel: ir.Operation) -> bool:
    """Return whether a kernel without barriers has such loops."""
    entry = kernel.regions[0].blocks[0]
    if len(kernel.regions[0].blocks) != 1 or not any(o.name in _HOLD for o in operations(entry)):
        return False
    return bool(Interchange(entry, set(), Uniformity(entry, set())).loops)


def is_id(op: ir.Operation, axis: str) -> bool:
    """Return whether ``op`` is the work-item's place on ``axis``, in its workgroup or in the grid."""
    return op.name in _IDS and str(op.attributes["dimension"]).removeprefix("#gpu<dim ")[0] == axis


def may_jump(value: ir.Value) -> bool:
    """Whether a sum of a work-item's x and of uniform values may do so in the middle of its type's range.

    It does where a narrower integer on the way overflows.
    """
    return any(
        op.name in CASTS and scalar_bits(op.operands[0].type) < scalar_bits(op.results[0].type)
        for op in _sources(value, CASTS | _SUMS.keys())
    )


def _sources(value: ir.Value, through: Set[str]) -> Iterator[ir.Operation]:
    """Return the ops named in ``through`` that ``value`` is computed by, each once."""
    pending, seen = [value], set()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block) or owner.operation in seen or owner.operation.name not in through:
            continue
        seen.add(owner.operation)
        yield owner.operation
        pending.extend(owner.operation.operands)


def _without_loops(block: ir.Block) -> Iterator[ir.Operation]:
    for op in operations(block):
        yield op
        if op.name not in {"scf.for", "scf.while"}:
            for region in op.regions:
                for inner in region.blocks:
                    yield from _without_loops(inner)


def _follows(value: ir.Value, counter: ir.Value) -> bool:
    """Return whether ``value`` is ``counter`` plus something."""
    sums = _sources(value, CASTS | {"arith.addi"})
    return value == counter or any(operand == counter for op in sums for operand in op.operands)


def _is_short(op: ir.Operation) -> bool:
    bounds = [constant_integer(value) for value in list(op.operands)[:3]]
    if any(bound is None for bound in bounds):
        return False
    lower, upper, step = (bound for bound in bounds if bound is not None)
    return upper - lower <= _UNROLLED * step
