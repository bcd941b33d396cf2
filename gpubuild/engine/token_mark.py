"""Token mark: a token of its own for a point of a stream."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.emit import Emitter

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
