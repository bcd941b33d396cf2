"""Tokens for points of a stream: where a token is last used, and new tokens that mark a point."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host.async_tokens import edges
from gpubuild.engine.ir.builder import Emitter

_SCOPES = frozenset({"func.func", "async.execute", "async.func"})


def mark(op: ir.Operation, token: ir.Value) -> ir.Value:
    """A token, made before ``op``, of what the stream of ``token`` has to do by then.

    Upstream records the event that others wait for where a token was made. A copy of nothing makes one.
    """
    nothing = local_array(op, 0, ir.IntegerType.get_signless(8))
    return Emitter(op).op("gpu.memcpy", [token, nothing, nothing], [token.type]).results[0]


def local_array(op: ir.Operation, count: int, kind: ir.Type) -> ir.Value:
    """An array on the stack, made where the function begins: a loop must not make one each time round."""
    scope = op.parent.operation
    while scope.name not in _SCOPES:
        scope = scope.parent.operation
    start = scope.regions[0].blocks[0].operations[0]
    sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    return (
        Emitter(start.operation).op("memref.alloca", [], [ir.MemRefType.get([count], kind)], sizes).results[0]
    )


def places(token: ir.Value) -> list[ir.InsertionPoint]:
    """Points of which control passes one for each time the token is made, after its last use.

    A token that no block but its own uses has one, after its last use there or where it is made.
    Blocks may be put between others. Branches of other dialects than cf's are left as they are: where
    one of them leads away from all uses there is no point, so the token is left behind on that way.
    """
    maker = token.owner.operation
    last = _last_uses(token)
    entered = _entered(maker.block, last)
    found = []
    for block in [maker.block, *entered]:
        following = [successor in entered for successor in block.successors]
        if not any(following):
            found.append(ir.InsertionPoint.after(last.get(block, maker)))
            continue
        branch = block.operations[len(block.operations) - 1].operation
        for number, goes_on in enumerate(following):
            if not goes_on and branch.name in edges.BRANCHES:
                branch, edge = edges.split(branch, number)
                found.append(ir.InsertionPoint.at_block_begin(edge))
    return found


def _last_uses(token: ir.Value) -> dict[ir.Block, ir.Operation]:
    """The last operation of each block that uses the token, itself or somewhere inside."""
    region = token.owner.operation.block.region
    last: dict[ir.Block, ir.Operation] = {}
    for use in token.uses:
        op = use.owner.operation
        while op.block.region != region:
            op = op.parent.operation
        if op.block not in last or last[op.block].is_before_in_block(op):
            last[op.block] = op
    return last


def _entered(home: ir.Block, last: dict[ir.Block, ir.Operation]) -> list[ir.Block]:
    """The blocks before whose beginning the token is made and in or after which it is used."""
    waiting = [block for block in last if block != home]
    entered: list[ir.Block] = []
    while waiting:
        block = waiting.pop()
        if block not in entered:
            entered.append(block)
            waiting += [before for before in block.predecessors if before != home]
    return entered
