"""Fast mathematics: the flags by which a target allows other rounding than IEEE's."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import matching
from gpubuild.engine.legalize.state import Legalization

_FAST = "#arith.fastmath<fast>"


def _set_flags(module: ir.Module, _: Legalization) -> None:
    """Set all flags on every operation that can have them."""
    fast = ir.Attribute.parse(_FAST)
    for op in matching(module.operation, lambda op: "fastmath" in op.attributes):
        op.attributes["fastmath"] = fast


SET_FLAGS = Pass(name="set-fast-math-flags", run=_set_flags, when=lambda state: state.fast_math)
