"""Code of one work-item: copies of a kernel's operations whose operands are values of that work-item.

A value of a work-item that is needed behind a barrier is

- computed once for all when it is uniform;
- computed again when that takes a few integer operations;
- kept in a context array otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.applicability import is_report, needs_item
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays, load
from gpubuild.engine.backends.cpu.fission.item_loops import ItemLoops
from gpubuild.engine.backends.cpu.fission.masks import Mask
from gpubuild.engine.backends.cpu.fission.shuffles import FROM_LANE, StaticShuffles
from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, Uniformity, is_pure, nested
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import VIEWS, defining_op

_MOST = 16  # operations; more of them cost as much as loading from the first cache, and not only in time
_MOST_FOR_VIEWS = 256  # a memref cannot be kept in memory, so that there is no cheaper way
_DIVISION = 8  # as many others
_NEVER = 1 << 20
_DIALECTS = frozenset({"arith", "index", "affine"})


class ItemCode:
    """Copies operations of a function that is being cut.

    ``old`` are all values of the function; ``once`` maps uniform ones to those of the new code.
    """

    def __init__(self, ops: Sequence[ir.Operation], uniformity: Uniformity, arrays: ContextArrays) -> None:
        self.old = {value for op in ops for value in _defined(op)}
        self.once: dict[ir.Value, ir.Value] = {}
        self.arrays = arrays
        self.recompute = Recompute(uniformity)
        self.shuffles = StaticShuffles(ops, self.uniform)
        self.repeatable: set[ir.Operation] = set()  # of the segment between barriers at hand
        self.mask: Mask | None = None  # of the code that is being built

    def uniform(self, value: ir.Value) -> ir.Value:
        """Return what a value that is the same for all work-items is in the new code."""
        if value not in self.old:
            return value
        if value not in self.once:
            raise CannotFissionError(f"a value of type {value.type} is not known to be the same for all")
        return self.once[value]

    def compute_once(self, op: ir.Operation, emit: Emitter) -> None:
        """Copy an operation whose results are uniform."""
        operands = [self.uniform(value) for value in op.operands]
        new = emit.copy(op)
        for index, value in enumerate(operands):
            new.operands[index] = value
        self.once.update(zip(op.results, new.results, strict=True))

    def set_item(self, ops: Sequence[ir.Operation], loops: ItemLoops) -> None:
        """Write the ids of the loops' work-item into its record, if one of ``ops`` reads that."""
        if any(map(needs_item, ops)):
            _set_item(loops, loops.emit)

    def value(self, value: ir.Value, loops: ItemLoops, emit: Emitter) -> ir.Value:
        """Return what the kernel's ``value`` is for the loops' work-item."""
        if value not in self.old:
            return value
        if value in self.once:
            return self.once[value]
        if value not in loops.values:
            known = loops.fetch(value, emit)
            loops.values[value] = self._fetch(value, loops, emit) if known is None else known
        return loops.values[value]

    def _fetch(self, value: ir.Value, loops: ItemLoops, emit: Emitter) -> ir.Value:
        array = self.arrays.get(value)
        if array is not None:
            return load(value.type, array, loops, emit)
        owner = defining_op(value)
        if owner is None or not (owner in self.repeatable or self.recompute.possible(owner)):
            raise CannotFissionError(f"a value of type {value.type} is needed after a barrier")
        if owner.name in ITEM_IDS:
            return loops.identity(owner, emit)
        number = list(owner.results).index(value)
        return self.copy(owner, loops, emit).results[number]

    def copy(self, op: ir.Operation, loops: ItemLoops, emit: Emitter) -> ir.Operation:
        """Return a copy of ``op`` and all inside it for the loops' work-item."""
        new = emit.copy(op)
        before = Emitter(new)
        for inner in nested(new):
            for index, operand in enumerate(list(inner.operands)):
                if operand in self.old:
                    inner.operands[index] = self.value(operand, loops, before)
        for inner in nested(new):
            if inner.name in ITEM_IDS and inner != new:
                at = Emitter(inner)
                at.replace(loops.identity(inner, at))
            elif FROM_LANE in inner.attributes:
                self._read_lane(inner, loops)
            elif is_report(inner):
                _set_item(loops, Emitter(inner))
        return new

    def _read_lane(self, read: ir.Operation, loops: ItemLoops) -> None:
        """A work-item that reads one that takes no part gets its own value."""
        del read.attributes[FROM_LANE]
        if not self.shuffles.read(read, loops.linear) and self.mask is not None:
            at, place = Emitter(read), read.operands[1]
            bit = load(ir.IntegerType.get_signless(1), self.mask.array, loops, at, at=place)
            read.operands[1] = at.op("arith.select", [bit, place, loops.linear], [place.type]).results[0]


def _set_item(loops: ItemLoops, emit: Emitter) -> None:
    reference = {"callee": ir.FlatSymbolRefAttr.get(image_layout.PLACE_ITEM)}
    emit.op("func.call", [*loops.ids, loops.linear], [], reference)


def _defined(op: ir.Operation) -> list[ir.Value]:
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    return [*op.results, *arguments]


class Recompute:
    """Costs of the ops of one function, each looked at once."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._costs: dict[ir.Operation, int] = {}

    def possible(self, op: ir.Operation) -> bool:
        """Return whether each user may compute ``op`` again from what is known about a work-item."""
        most = _MOST_FOR_VIEWS if op.name in VIEWS else _MOST
        return self._cost(op) <= most

    def _cost(self, op: ir.Operation) -> int:
        if op not in self._costs:
            self._costs[op] = self._count(op)
        return self._costs[op]

    def _count(self, op: ir.Operation) -> int:
        if op.name in ITEM_IDS:
            return 1
        if not is_pure(op) or (op.name not in VIEWS and op.name.partition(".")[0] not in _DIALECTS):
            return _NEVER
        if op.name not in VIEWS and not all(map(_is_whole, (*op.operands, *op.results))):
            return _NEVER
        cost = _DIVISION if "div" in op.name or "rem" in op.name else 1
        return min(_NEVER, cost + sum(map(self._operand, op.operands)))

    def _operand(self, value: ir.Value) -> int:
        if self._uniformity.uniform(value):
            return 0
        return _NEVER if isinstance(value.owner, ir.Block) else self._cost(value.owner.operation)


def _is_whole(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IndexType | ir.IntegerType)
