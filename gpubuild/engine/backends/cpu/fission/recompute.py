"""Recompute: which values are cheaper to compute again than to keep."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, Uniformity, is_pure
from gpubuild.engine.ir.query import VIEWS

_MOST = 16  # operations; more of them cost as much as loading from the first cache, and not only in time
_MOST_FOR_VIEWS = 256  # a memref cannot be kept in memory, so that there is no cheaper way
_DIVISION = 8  # as many others
_NEVER = 1 << 20
_DIALECTS = frozenset({"arith", "index", "affine"})


class Recompute:
    """Costs of the ops of one function, each looked at once."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._costs: dict[ir.Operation, int] = {}

    def possible(self, op: ir.Operation) -> bool:
        """Whether each user may compute ``op`` anew from what is known about a work-item."""
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
