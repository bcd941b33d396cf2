"""Token flow: what becomes of gpu.async tokens, which ``gpu-to-llvm`` takes for streams without looking.

An operation with one dependency goes on in that dependency's stream, and waiting for a token on the
host destroys its stream. Both are right only when every token is consumed once, in the block that
runs once per token. What could be made right is; the rest is refused, because upstream would
destroy streams twice or take them for events.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from gpubuild.engine.diagnostics import SourceText, locate
from gpubuild.errors import Diagnostic, StepError

TOKEN_TYPE = "!gpu.async.token"  # noqa: S105 - a type
_LOOPS = frozenset({"affine.for", "affine.parallel", "scf.for", "scf.forall", "scf.parallel", "scf.while"})


def is_token(value: ir.Value) -> bool:
    """Whether ``value`` is a gpu.async token."""
    return str(value.type) == TOKEN_TYPE


def check(module: ir.Module, source: SourceText | None = None) -> None:
    """Raise ``StepError`` for tokens that pass through control flow, calls or into a loop."""
    lines = source or SourceText()
    found: list[Diagnostic] = []
    for op in _users(module):
        reason = _refusal(op)
        if reason:
            location, line = locate(op.location, lines)
            found.append(Diagnostic(message=reason, location=location, source_line=line))
    if found:
        raise StepError(
            "host code passes gpu tokens where they cannot be followed",
            diagnostics=found,
            hint="end the chain with `gpu.wait [%token]` where it began, and begin another with "
            "`%token = gpu.wait async`",
        )


def fork(module: ir.Module) -> None:
    """Give every consumer of a token but the last a stream of its own, which waits for the token."""
    seen: list[ir.Value] = []
    consumers = [op for op in _users(module) if not _joins(op)]
    for op in reversed(consumers):
        for number in reversed(range(len(op.operands))):
            token = op.operands[number]
            if not is_token(token):
                continue
            if token not in seen:
                seen.append(token)
                continue
            with ir.InsertionPoint(op), op.location:
                wait = ir.Operation.create("gpu.wait", results=[ir.Type.parse(TOKEN_TYPE)], operands=[token])
            op.operands[number] = wait.results[0]


def _users(module: ir.Module) -> Iterator[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if any(is_token(o) for o in op.operands):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    yield from found


def _joins(op: ir.Operation) -> bool:
    """`gpu.wait async` begins a stream that waits for others and leaves those as they are."""
    return bool(op.name == "gpu.wait" and len(op.results) > 0)


def _refusal(op: ir.Operation) -> str:
    if op.name.partition(".")[0] not in ("gpu", "async", "nvgpu"):
        return f"a gpu token is passed to '{op.name}'"
    for token in op.operands:
        if not is_token(token):
            continue
        maker = token.owner
        if isinstance(maker, ir.Block):
            return f"'{op.name}' depends on a token that comes from outside its block"
        if _loop_between(op, maker):
            return f"'{op.name}' is in a loop and depends on a token from before it"
    return ""


def _loop_between(op: ir.Operation, maker: ir.Operation) -> bool:
    home = maker.operation.parent
    above = op.operation.parent
    while above is not None and above != home:
        if above.name in _LOOPS:
            return True
        above = above.operation.parent
    return False
