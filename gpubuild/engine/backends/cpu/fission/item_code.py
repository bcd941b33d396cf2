"""Copy a kernel's operations for one work-item, with operands that are values of that work-item.

A value that is needed behind a barrier is computed once for all work-items when it is uniform, computed
again when that is a few integer operations, and otherwise kept in a context array.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.applicability import is_report, needs_item
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays, load
from gpubuild.engine.backends.cpu.fission.item_loops import ItemLoops
from gpubuild.engine.backends.cpu.fission.masks import Mask
from gpubuild.engine.backends.cpu.fission.shuffles import FROM_LANE, StaticShuffles
from gpubuild.engine.backends.cpu.fission.uniformity import (
    ITEM_IDS,
    Uniformity,
    defined_values,
    is_pure,
    nested,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import VIEWS, defining_op

_MOST = 16  # operations; more of them cost as much as a load from the first cache
_MOST_FOR_VIEWS = 256  # a memref cannot be kept in memory
_DIVISION = 8  # costs as much as so many others
_NEVER = 1 << 20
_DIALECTS = frozenset({"arith", "index", "affine"})


class ItemCode:
    """Copies operations of a function that is being cut.

    ``old`` are all values of the function; ``once`` maps the uniform ones to their values in the new code.
    """

    def __init__(self, ops: Sequence[ir.Operation], uniformity: Uniformity, arrays: ContextArrays) -> None:
        self.old = {value for op in ops for value in defined_values(op)}
        self.once: dict[ir.Value, ir.Value] = {}
        self.arrays = arrays
        self.recompute = Recompute(uniformity)
        self.shuffles = StaticShuffles(ops, self.uniform)
        self.repeatable: set[ir.Operation] = set()  # of the current segment between barriers
        self.mask: Mask | None = None  # of the code under construction

    def uniform(self, value: ir.Value) -> ir.Value:
        """Return the value in the new code of one that is the same for all work-items."""
        if value not in self.old:
            return value
        if value not in self.once:
            raise CannotFissionError(f"a value of type {value.type} is not known to be the same for all")
        return self.once[value]

    def compute_once(self, op: ir.Operation, emit: Emitter) -> None:
        """Copy an operation whose results are uniform."""
        new = copy_with(op, [self.uniform(value) for value in op.operands], emit)
        self.once.update(zip(op.results, new.results, strict=True))

    def set_item(self, ops: Sequence[ir.Operation], loops: ItemLoops) -> None:
        """Store the ids of the loops' work-item in its record, if one of ``ops`` reads them there."""
        if any(map(needs_item, ops)):
            _set_item(loops, loops.emit)

    def value(self, value: ir.Value, loops: ItemLoops, emit: Emitter) -> ir.Value:
        """Return the kernel's ``value`` for the loops' work-item."""
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
        """Let a work-item that would read one outside the mask read its own value."""
        del read.attributes[FROM_LANE]
        if not self.shuffles.read(read, loops.linear) and self.mask is not None:
            emit, source = Emitter(read), read.operands[1]
            bit = load(ir.IntegerType.get_signless(1), self.mask.array, loops, emit, at=source)
            read.operands[1] = emit.select(bit, source, loops.linear)


def copy_with(op: ir.Operation, operands: Sequence[ir.Value], emit: Emitter) -> ir.Operation:
    """Return a copy of ``op`` with these operands."""
    new = emit.copy(op)
    for index, operand in enumerate(operands):
        new.operands[index] = operand
    return new


def _set_item(loops: ItemLoops, emit: Emitter) -> None:
    reference = {"callee": ir.FlatSymbolRefAttr.get(image_layout.PLACE_ITEM)}
    emit.op("func.call", [*loops.ids, loops.linear], [], reference)


class Recompute:
    """The costs of computing operations of one function again."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._cost = cache(self._count)

    def possible(self, op: ir.Operation) -> bool:
        """Return whether each user may compute ``op`` again, from uniform values and ids of a work-item."""
        most = _MOST_FOR_VIEWS if op.name in VIEWS else _MOST
        return self._cost(op) <= most

    def _count(self, op: ir.Operation) -> int:
        if op.name in ITEM_IDS:
            return 1
        if not is_pure(op) or (op.name not in VIEWS and op.name.partition(".")[0] not in _DIALECTS):
            return _NEVER
        if op.name not in VIEWS and not is_integer(op):
            return _NEVER
        cost = _DIVISION if "div" in op.name or "rem" in op.name else 1
        return min(_NEVER, cost + sum(map(self._operand, op.operands)))

    def _operand(self, value: ir.Value) -> int:
        if self._uniformity.uniform(value):
            return 0
        op = defining_op(value)
        return _NEVER if op is None else self._cost(op)


def is_integer(op: ir.Operation) -> bool:
    """Return whether all operands and results of ``op`` are integers."""
    return all(isinstance(v.type, ir.IndexType | ir.IntegerType) for v in (*op.operands, *op.results))
