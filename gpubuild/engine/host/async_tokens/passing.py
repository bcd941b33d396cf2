"""Token passing: gpu tokens as arguments and results of blocks, loops, branches and functions.

Upstream's lowering takes a token for a stream only where it sees the stream made, so none can be
passed on as it is. Here the giver makes a stream that waits for the token and hands it over as a
pointer; the receiver makes another that waits for it, and releases the first. Whatever way control
takes, each stream is released once. What chooses between tokens is rewritten before (token_choice).

Token choice: one of several tokens, as `arith.select` takes, or as a branch hands to one successor.

Both become forms in which ownership does not depend on the way control takes (see token_passing): a
select an `scf.if` that yields one of them, so that only the chosen one is waited for; a branch one
without tokens, to blocks that end with `cf.br`.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host.async_tokens import flow
from gpubuild.engine.host.async_tokens.flow import (
    JOIN,
    PASSING,
    RELEASE,
    TOKEN_TYPE,
    declare,
    is_token,
    mark,
    needs_mark,
)
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import matching


def lower_choices(module: ir.Module) -> None:
    """Rewrite all choices between tokens in host code, in place. Runs before ``token_passing.lower``."""
    chooses = {"arith.select", *flow.BRANCHES}
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
    for number, values in enumerate(flow.passed(op)):
        if any(is_token(value) for value in values):
            op, _ = flow.split(op, number)


_POINTER = "!llvm.ptr"
# Operations whose results are tokens that their regions or their callee pass on.
_GIVING = PASSING | {"scf.execute_region", "scf.if", "scf.index_switch"}


def lower(module: ir.Module) -> None:
    """Rewrite all passing of tokens in host code, in place. Runs before ``token_flow.fork``."""
    ops = [op for op in _host_ops(module) if op.name in _GIVING or op.name == "func.func" or op.regions]
    received = False
    for op in ops:
        if op.name in PASSING:
            _give(op)
    for op in ops:
        if op.name in _GIVING:
            received |= _receive_results(op)
        if op.name == "func.func":
            _retype(op)
        for region in op.regions:
            for block in region.blocks:
                received |= _receive_arguments(block)
    if received:
        token = ir.Type.parse(TOKEN_TYPE)
        declare(module, JOIN, [token, token])
        declare(module, RELEASE, [token])


def _host_ops(module: ir.Module) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.module":
            return ir.WalkResult.SKIP
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _give(op: ir.Operation) -> None:
    emit = Emitter(op)
    for number, operand in enumerate(op.operands):
        if is_token(operand):
            stream = emit.op("gpu.wait", [operand], [operand.type]).results[0]
            op.operands[number] = emit.cast(stream, ir.Type.parse(_POINTER))


def _receive_results(op: ir.Operation) -> bool:
    tokens = [result for result in op.results if is_token(result)]
    if tokens:
        block = op.block
        after = list(block.operations)
        following = after[[o.operation for o in after].index(op) + 1].operation
        _receive(tokens, following)
    return bool(tokens)


def _receive_arguments(block: ir.Block) -> bool:
    tokens = [argument for argument in block.arguments if is_token(argument)]
    if tokens:
        _receive(tokens, block.operations[0].operation)
    return bool(tokens)


def _receive(tokens: list[ir.Value], op: ir.Operation) -> None:
    """Make streams of pointers, before ``op``: who gave them made others of them."""
    emit = Emitter(op)
    kind = ir.Type.parse(TOKEN_TYPE)
    for token in tokens:
        late = needs_mark(token)
        stream = emit.op("gpu.wait", [], [kind]).results[0]
        uses = [(use.owner, use.operand_number) for use in token.uses]
        token.set_type(ir.Type.parse(_POINTER))
        given = emit.cast(token, kind)
        emit.op("func.call", [stream, given], [], {"callee": ir.FlatSymbolRefAttr.get(JOIN)})
        emit.op("func.call", [given], [], {"callee": ir.FlatSymbolRefAttr.get(RELEASE)})
        if late:
            stream = mark(op, stream)
        for user, number in uses:
            user.operands[number] = stream


def _retype(function: ir.Operation) -> None:
    """Pointers in place of tokens in the type of a function."""
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, results = (
        [ir.Type.parse(_POINTER) if str(t) == TOKEN_TYPE else t for t in types]
        for types in (kind.inputs, kind.results)
    )
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
