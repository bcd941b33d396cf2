"""Token choice: one of several tokens, as `arith.select` takes, or as a branch hands to one successor.

Both become forms in which ownership does not depend on the way control takes (see token_passing): a
select an `scf.if` that yields one of them, so that only the chosen one is waited for; a branch one
without tokens, to blocks that end with `cf.br`.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host.async_tokens import edges
from gpubuild.engine.host.async_tokens.flow import is_token
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import matching


def lower(module: ir.Module) -> None:
    """Rewrite all choices between tokens in host code, in place. Runs before ``token_passing.lower``."""
    chooses = {"arith.select", *edges.BRANCHES}
    for op in matching(module.operation, lambda op: op.name in chooses and any(map(is_token, op.operands))):
        if op.name == "arith.select":
            _select(op)
        else:
            _branch(op)


def _select(op: ir.Operation) -> None:
    condition, *tokens = op.operands
    emit = Emitter(op)
    choice = emit.op("scf.if", [condition], [op.results[0].type], regions=2)
    for region, token in zip(choice.regions, tokens, strict=True):
        emit.inside(region.blocks.append()).op("scf.yield", [token], [])
    emit.replace(choice.results[0])


def _branch(op: ir.Operation) -> None:
    for number, values in enumerate(edges.passed(op)):
        if any(is_token(value) for value in values):
            op, _ = edges.split(op, number)
