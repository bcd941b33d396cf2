"""Softmax: ``linalg.softmax`` of memrefs as loops. Upstream takes it apart on tensors only."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting


def _expand_softmax(op: ir.Operation, _: Lowering) -> None:
    """Along the dimension: the largest element, powers of e less that, their sum, the quotients.

    Everything is done in the element type, as upstream does. Input and output may be the same memory.
    """
    source, target = op.operands
    if not isinstance(source.type, ir.MemRefType):
        return
    kind = ir.MemRefType(source.type).element_type
    axis = ir.IntegerAttr(op.attributes["dimension"]).value
    emit = Emitter(op)

    def constant(value: float) -> ir.Value:
        attribute = {"value": ir.FloatAttr.get(kind, value)}
        return emit.value("arith.constant", [], kind, attribute)

    lowest, zero = constant(float("-inf")), constant(0.0)

    def along(at: Emitter, outer: list[ir.Value]) -> None:
        def place(index: ir.Value) -> list[ir.Value]:
            return [*outer[:axis], index, *outer[axis:]]

        def largest(here: Emitter, index: ir.Value, best: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [source, *place(index)], kind)
            return [here.binary("arith.maxnumf", best[0], value)]

        def power(here: Emitter, index: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [source, *place(index)], kind)
            value = here.value("math.exp", [here.binary("arith.subf", value, most)], kind)
            here.op("memref.store", [value, target, *place(index)], [])
            return [here.binary("arith.addf", total[0], value)]

        def quotient(here: Emitter, index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [target, *place(index)], kind)
            here.op("memref.store", [here.binary("arith.divf", value, total), target, *place(index)], [])
            return []

        most = _loop(at, source, axis, [lowest], largest)[0]
        total = _loop(at, source, axis, [zero], power)[0]
        _loop(at, source, axis, [], quotient)

    axes = [n for n in range(ir.MemRefType(source.type).rank) if n != axis]
    _nest(emit, source, axes, [], along)
    op.erase()


def _nest(
    at: Emitter,
    memory: ir.Value,
    axes: list[int],
    outer: list[ir.Value],
    body: Callable[[Emitter, list[ir.Value]], None],
) -> None:
    if not axes:
        body(at, outer)
        return

    def inside(here: Emitter, index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        _nest(here, memory, axes[1:], [*outer, index], body)
        return []

    _loop(at, memory, axes[0], [], inside)


def _loop(
    at: Emitter,
    memory: ir.Value,
    axis: int,
    start: list[ir.Value],
    body: Callable[[Emitter, ir.Value, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """An ``scf.for`` over a dimension of ``memory``, which carries values."""
    extent = at.value("memref.dim", [memory, at.constant(axis)], ir.IndexType.get())
    kinds = [value.type for value in start]
    loop = at.op("scf.for", [at.constant(0), extent, at.constant(1), *start], kinds, regions=1)
    block = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds)
    inside = at.inside(block)
    index, *carried = block.arguments
    inside.op("scf.yield", body(inside, index, carried), [])
    return list(loop.results)


EXPAND_SOFTMAX = rewriting("expand-softmax", {"linalg.softmax": _expand_softmax})
