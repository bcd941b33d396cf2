"""Expansion of ``linalg.softmax`` of memrefs to loops: upstream expands it on tensors only."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting


def _expand_softmax(op: ir.Operation, _: Lowering) -> None:
    """Expand ``linalg.softmax``: the largest element m, the powers e^(x - m), their sum, the quotients.

    All arithmetic is in the element type, as upstream has it. Input and output may be the same memory.
    """
    source, target = op.operands
    if not isinstance(source.type, ir.MemRefType):
        return
    kind = source.type.element_type
    axis = op.attributes["dimension"].value
    emit = Emitter(op)

    lowest, zero = emit.constant(float("-inf"), kind), emit.constant(0.0, kind)

    def along(at: Emitter, outer: list[ir.Value]) -> None:
        def position(index: ir.Value) -> list[ir.Value]:
            return [*outer[:axis], index, *outer[axis:]]

        def largest(here: Emitter, index: ir.Value, best: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [source, *position(index)], kind)
            return [here.binary("arith.maxnumf", best[0], value)]

        def power(here: Emitter, index: ir.Value, total: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [source, *position(index)], kind)
            value = here.value("math.exp", [here.binary("arith.subf", value, most)], kind)
            here.op("memref.store", [value, target, *position(index)], [])
            return [here.binary("arith.addf", total[0], value)]

        def quotient(here: Emitter, index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            value = here.value("memref.load", [target, *position(index)], kind)
            here.op("memref.store", [here.binary("arith.divf", value, total), target, *position(index)], [])
            return []

        most = at.loop(at.extent(source, axis), [lowest], largest)[0]
        total = at.loop(at.extent(source, axis), [zero], power)[0]
        at.loop(at.extent(source, axis), [], quotient)

    axes = [n for n in range(source.type.rank) if n != axis]
    emit.nest(source, axes, along)
    op.erase()


EXPAND_SOFTMAX = rewriting("expand-softmax", {"linalg.softmax": _expand_softmax})
