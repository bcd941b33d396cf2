"""Patterns: upstream's own rewrites that no pass of mlir-opt runs inside a gpu.module."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.passes import Lowering, Pass, contains
from gpubuild.engine.ir.query import operations

# Ops that need them → patterns of the transform dialect.
_PATTERNS = {
    "vector.mask": "lower_masked_transfers",
    "vector.multi_reduction": 'lower_multi_reduction lowering_strategy = "innerreduction"',
    "vector.scan": "lower_scan",
}


def _apply_patterns(module: ir.Module, _: Lowering) -> None:
    """Lower what only patterns lower. Nothing is loaded when there is no such op."""
    if not contains(module.operation, _PATTERNS):
        return
    found = dict.fromkeys(op.name for op in operations(module.operation, _PATTERNS))
    from mlir.dialects.transform import interpreter

    wanted = "\n".join(f"transform.apply_patterns.vector.{_PATTERNS[name]}" for name in found)
    script = ir.Module.parse(f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @main(%module: !transform.any_op) {{
    transform.apply_patterns to %module {{
      {wanted}
    }} : !transform.any_op
    transform.yield
  }}
}}""")
    interpreter.apply_named_sequence(module, script.body.operations[0], script)


LOWER_VECTORS: Pass[Lowering] = Pass(name="lower-vector-patterns", run=_apply_patterns)
