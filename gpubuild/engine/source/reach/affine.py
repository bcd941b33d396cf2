"""Affine maps: what they give for values that are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.source.reach.integers import INDEX_BITS, Fold, signed

_MASK = (1 << INDEX_BITS) - 1
_CHOICES: dict[str, Callable[[Sequence[int]], int]] = {
    "affine.apply": min,  # of one
    "affine.max": max,
    "affine.min": min,
}
_SET = re.compile(r"affine_set<(\(.*?\)(?:\[.*?\])?) : \((.*)\)>")
_CONSTRAINT = re.compile(r"(.+) (==|>=) 0")


def fold_of(op: ir.Operation) -> Fold | None:
    """What ``affine.apply``, ``affine.min`` and ``affine.max`` compute from known operands."""
    choose = _CHOICES.get(op.name)
    return None if choose is None else _map(op.attributes["map"], choose)


def bound_of(attribute: ir.Attribute, *, least: bool) -> Fold:
    """What a map of bounds gives: the least or the largest of its results."""
    return _map(attribute, min if least else max)


def set_of(attribute: ir.Attribute) -> Fold | None:
    """Whether values are in an integer set: 1 or 0.

    The bindings do not open the attribute; its constraints are written as a map's results are.
    """
    found = _SET.fullmatch(str(attribute))
    constraints = [_CONSTRAINT.fullmatch(c.strip()) for c in found[2].split(",")] if found else [None]
    known = [c for c in constraints if c is not None]
    if found is None or len(known) != len(constraints):
        return None
    expressions = ir.Attribute.parse(f"affine_map<{found[1]} -> ({', '.join(c[1] for c in known)})>")
    equal = [c[2] == "==" for c in known]

    def inside(results: Sequence[int]) -> int:
        return int(all(r == 0 if exact else r >= 0 for r, exact in zip(results, equal, strict=True)))

    return _map(expressions, inside)


def _map(attribute: ir.Attribute, choose: Callable[[Sequence[int]], int]) -> Fold:
    given = ir.AffineMapAttr(attribute).value
    dimensions, expressions = given.n_dims, list(given.results)

    def fold(values: Sequence[int]) -> int | None:
        numbers = [signed(v, INDEX_BITS) for v in values]
        results = [_value(e, numbers[:dimensions], numbers[dimensions:]) for e in expressions]
        known = [r for r in results if r is not None]
        return choose(known) & _MASK if len(known) == len(results) else None

    return fold


def _value(expression: ir.AffineExpr, dimensions: Sequence[int], symbols: Sequence[int]) -> int | None:
    if isinstance(expression, ir.AffineConstantExpr):
        return int(expression.value)
    if isinstance(expression, ir.AffineDimExpr):
        return dimensions[int(expression.position)]
    if isinstance(expression, ir.AffineSymbolExpr):
        return symbols[int(expression.position)]
    both = ir.AffineBinaryExpr(expression)
    left, right = _value(both.lhs, dimensions, symbols), _value(both.rhs, dimensions, symbols)
    if left is None or right is None:
        return None
    if isinstance(expression, ir.AffineAddExpr):
        return left + right
    if isinstance(expression, ir.AffineMulExpr):
        return left * right
    if right <= 0:
        return None  # nothing is defined
    if isinstance(expression, ir.AffineModExpr):
        return left % right
    return -(-left // right) if isinstance(expression, ir.AffineCeilDivExpr) else left // right
