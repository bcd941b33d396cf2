"""Affine maps: what they give for values that are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.reach.integers import INDEX_BITS, Fold, signed

_MASK = (1 << INDEX_BITS) - 1
_CHOICES = {"affine.min": min, "affine.max": max}


def fold_of(op: ir.Operation) -> Fold | None:
    """What ``affine.apply``, ``affine.min`` and ``affine.max`` compute from known operands."""
    choose = _CHOICES.get(op.name)
    if choose is None and op.name != "affine.apply":
        return None
    given = ir.AffineMap(ir.AffineMapAttr(op.attributes["map"]).value)
    return _map(given, choose or min)


def _map(given: ir.AffineMap, choose: Callable[[Sequence[int]], int]) -> Fold:
    dimensions, expressions = given.n_dims, list(given.results)

    def fold(values: Sequence[int]) -> int | None:
        numbers = [signed(v, INDEX_BITS) for v in values]
        results = [_value(e, numbers[:dimensions], numbers[dimensions:]) for e in expressions]
        known = [r for r in results if r is not None]
        return choose(known) & _MASK if len(known) == len(results) else None

    return fold


def bound_of(attribute: ir.Attribute, *, least: bool) -> Fold:
    """What a map of bounds gives: the least or the largest of its results."""
    given = ir.AffineMap(ir.AffineMapAttr(attribute).value)
    return _map(given, min if least else max)


def set_of(attribute: ir.Attribute) -> Fold:
    """Whether values are in an integer set: 1 or 0."""
    given = ir.IntegerSet(ir.IntegerSetAttr(attribute).value)
    dimensions = given.n_dims
    constraints = [(c.expr, c.is_eq) for c in given.constraints]

    def fold(values: Sequence[int]) -> int | None:
        numbers = [signed(v, INDEX_BITS) for v in values]
        inside = True
        for expression, equal in constraints:
            result = _value(expression, numbers[:dimensions], numbers[dimensions:])
            if result is None:
                return None
            inside = inside and (result == 0 if equal else result >= 0)
        return int(inside)

    return fold


def _value(expression: ir.AffineExpr, dimensions: Sequence[int], symbols: Sequence[int]) -> int | None:
    if ir.AffineConstantExpr.isinstance(expression):
        return int(ir.AffineConstantExpr(expression).value)
    if ir.AffineDimExpr.isinstance(expression):
        return dimensions[int(ir.AffineDimExpr(expression).position)]
    if ir.AffineSymbolExpr.isinstance(expression):
        return symbols[int(ir.AffineSymbolExpr(expression).position)]
    both = ir.AffineBinaryExpr(expression)
    left, right = _value(both.lhs, dimensions, symbols), _value(both.rhs, dimensions, symbols)
    if left is None or right is None:
        return None
    if ir.AffineAddExpr.isinstance(expression):
        return left + right
    if ir.AffineMulExpr.isinstance(expression):
        return left * right
    if right <= 0:
        return None  # nothing is defined
    if ir.AffineModExpr.isinstance(expression):
        return left % right
    return -(-left // right) if ir.AffineCeilDivExpr.isinstance(expression) else left // right
