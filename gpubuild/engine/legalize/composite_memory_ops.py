"""Plain memory: ops made of others, each as what it is made of.

``memref.realloc`` becomes allocation, copy and release. What ``vector.type_cast`` makes of memory is loaded
and stored as the vectors it holds: upstream assumes memory to be aligned like a vector, and rows to be
padded to a power of two. ``memref.copy`` of views with gaps would become a call of a host function.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, contains, rewriting, upstream
from gpubuild.engine.ir.query import operations
from gpubuild.engine.legalize.booleans import bytes_of

_CAST = "vector.type_cast"


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


def expand_copy(op: ir.Operation, *, plain_too: bool = False) -> None:
    """Expand ``memref.copy`` of views with gaps to a loop nest.

    With ``plain_too`` a copy without gaps becomes one as well.
    """
    source, target = op.operands
    shaped = [ir.MemRefType(v.type) for v in (source, target)]
    if not plain_too and all(
        m.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(m.rank)) for m in shaped
    ):
        return
    emit = Emitter(op)
    _copy_axis(emit, source, target, [])
    op.erase()


def _copy_axis(emit: Emitter, source: ir.Value, target: ir.Value, indices: list[ir.Value]) -> None:
    shaped = ir.MemRefType(source.type)
    if len(indices) == shaped.rank:
        value = emit.op("memref.load", [source, *indices], [shaped.element_type]).results[0]
        emit.op("memref.store", [value, target, *indices], [])
        return
    axis = emit.constant(len(indices))
    extent = emit.op("memref.dim", [source, axis], [ir.IndexType.get()]).results[0]
    loop = emit.op("scf.for", [emit.constant(0), extent, emit.constant(1)], [], regions=1)
    body = loop.regions[0].blocks.append(ir.IndexType.get())
    inside = emit.inside(body)
    _copy_axis(inside, source, target, [*indices, body.arguments[0]])
    inside.op("scf.yield", [], [])


def _expand_copy(op: ir.Operation, _: Lowering) -> None:
    emit = Emitter(op)
    for number, memory in enumerate(list(op.operands)):
        if isinstance(memory.type, ir.MemRefType):
            op.operands[number] = bytes_of(emit, memory)
    expand_copy(op)


def _expand_casts(module: ir.Module, _: Lowering) -> None:
    if contains(module.operation, (_CAST,)):
        for cast in operations(module.operation, (_CAST,)):
            _use_elements(cast)


EXPAND_CASTS: Pass[Lowering] = Pass(name="expand-vector-type-casts", run=_expand_casts)
EXPAND_REALLOC: Pass[Lowering] = upstream(
    "expand-realloc", "builtin.module(expand-realloc)", only_for=("memref.realloc",)
)
EXPAND_COPIES = rewriting("expand-copies", {"memref.copy": _expand_copy})
