"""Plain memory: ops made of others before anything else looks at them.

``memref.realloc`` becomes allocation, copy and release. What ``vector.type_cast`` makes of memory is loaded
and stored as the vectors it holds: upstream assumes memory to be aligned like a vector, and rows to be
padded to a power of two.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter

_EXPAND = "builtin.module(expand-realloc)"
_REALLOCATION, _CAST = "memref.realloc", "vector.type_cast"


def make_plain(module: ir.Module) -> None:
    """Rewrite these ops inside ``module`` in place."""
    reallocates = False
    casts: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal reallocates
        if op.name == _CAST:
            casts.append(op)
        reallocates = reallocates or op.name == _REALLOCATION
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for cast in casts:
        _use_elements(cast)
    if reallocates:
        contexts.run_passes(module, _EXPAND)


def _use_elements(cast: ir.Operation) -> None:
    memory = cast.operands[0]
    shaped = ir.MemRefType(memory.type)
    if isinstance(shaped.element_type, ir.VectorType):
        return  # already aligned and padded so
    for use in list(cast.results[0].uses):
        op = use.owner.operation
        emit = Emitter(op)
        start = [emit.constant(0)] * shaped.rank
        if op.name == "memref.load":
            emit.replace(emit.op("vector.load", [memory, *start], [op.results[0].type]).results[0])
        elif op.name == "memref.store" and op.operands[1] == cast.results[0]:
            emit.op("vector.store", [op.operands[0], memory, *start], [])
            op.erase()
    if not list(cast.results[0].uses):
        cast.erase()
