"""Set the flags by which a target allows other results than IEEE's."""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import matching
from gpubuild.engine.legalize.state import Legalization

_FLAGS = re.compile(r"#arith\.fastmath<(.*)>")
_FINITE_ONLY = ("nnan", "ninf")
_APPROXIMATE = ("afn", "arcp", "contract")
_FAST_BUT_EXACT = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract")
_ROOTS = ("math.sqrt", "math.rsqrt")


def _set_flags(module: ir.Module, state: Legalization) -> None:
    """Set the target's flags on every operation that can have some."""
    for op in matching(module.operation, lambda op: "fastmath" in op.attributes):
        given = _FLAGS.fullmatch(str(op.attributes["fastmath"]))
        words = given[1].split(",") if given and given[1] != "none" else []
        flags = ["fast"] if state.fast_math else [*words, *_FINITE_ONLY * state.finite_only]
        if op.name in _ROOTS and state.fast_math and state.exact_roots:
            flags = [*_FAST_BUT_EXACT]
        elif op.name in _ROOTS and not state.exact_roots:
            flags += _APPROXIMATE
        flags = list(dict.fromkeys(flags)) or ["none"]
        op.attributes["fastmath"] = ir.Attribute.parse(f"#arith.fastmath<{','.join(flags)}>")


SET_FLAGS = Pass(
    name="set-fast-math-flags",
    run=_set_flags,
    when=lambda state: state.fast_math or state.finite_only or not state.exact_roots,
)
