"""Masks: which work-items take part where control flow differs between them.

A mask is a context array of one bit for each work-item, a byte each: 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, for_loop, if_op, set_operands
from gpubuild.engine.backends.cpu.fission.uniformity import operations, terminator
from gpubuild.engine.ir.builder import Compare, Emitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """``last`` says that no barrier follows the code of this mask: work-items outside it may be done."""

    array: ir.Value
    last: bool


def keep(emit: Emitter, extents: Extents, bits: ir.Value, mask: ir.Value) -> None:
    """Leave those of ``bits`` whose work-item is in ``mask``; others may not have been set."""
    place, at = _each(emit, extents)
    place.op(
        "memref.store",
        [place.binary("arith.andi", _bit(place, bits, at), _bit(place, mask, at)), bits, at],
        [],
    )


def fill(emit: Emitter, extents: Extents, bits: ir.Value, mask: ir.Value | None) -> None:
    """Set ``bits`` to those of ``mask``, or to 1 where there is none."""
    place, at = _each(emit, extents)
    value = place.constant(1, _byte()) if mask is None else _bit(place, mask, at)
    place.op("memref.store", [value, bits, at], [])


def others(emit: Emitter, extents: Extents, bits: ir.Value, chosen: ir.Value, mask: ir.Value | None) -> None:
    """Set ``bits`` to those in ``mask`` that are not in ``chosen``."""
    place, at = _each(emit, extents)
    value = place.binary("arith.xori", _bit(place, chosen, at), place.constant(1, _byte()))
    if mask is not None:
        value = place.binary("arith.andi", value, _bit(place, mask, at))
    place.op("memref.store", [value, bits, at], [])


def count(emit: Emitter, extents: Extents, bits: ir.Value) -> ir.Value:
    """Return how many work-items are in ``bits``, as an index."""
    i32 = ir.IntegerType.get_signless(32)
    place, at = _each(emit, extents, emit.constant(0, i32))
    end = _end_of(at)
    one = place.op("arith.extui", [_bit(place, bits, at)], [i32]).results[0]
    set_operands(end, [place.binary("arith.addi", at.owner.arguments[1], one)])
    total = at.owner.owner.operation.results[0]
    return emit.op("arith.index_castui", [total], [ir.IndexType.get()]).results[0]


def differs(emit: Emitter, left: ir.Value, right: ir.Value) -> ir.Value:
    """Return whether two integers are not the same."""
    return emit.compare(Compare.NE, left, right)


def require_all(
    emit: Emitter, extents: Extents, bits: ir.Value, total: ir.Value, waiting: ir.Operation
) -> None:
    """End the program unless the ``total`` work-items of ``bits`` are the whole workgroup, or none.

    ``waiting`` is the op that some of them would wait at for ever.
    """
    some = emit.binary("arith.andi", differs(emit, total, extents.zero), differs(emit, total, extents.items))
    _report(emit, some, bits, waiting, lanes=0)


def require_subgroups(emit: Emitter, extents: Extents, bits: ir.Value, waiting: ir.Operation) -> None:
    """End the program unless each subgroup is in ``bits`` as a whole, or not at all."""
    place, at = _each(emit, extents, emit.constant(0, _byte()))
    end = _end_of(at)
    first = place.binary("arith.andi", at, place.constant(-image_layout.SUBGROUP))
    unlike = place.binary("arith.xori", _bit(place, bits, at), _bit(place, bits, first))
    set_operands(end, [place.binary("arith.ori", at.owner.arguments[1], unlike)])
    found = at.owner.owner.operation.results[0]
    _report(emit, differs(emit, found, emit.constant(0, _byte())), bits, waiting, lanes=image_layout.SUBGROUP)


def _report(emit: Emitter, wrong: ir.Value, bits: ir.Value, waiting: ir.Operation, *, lanes: int) -> None:
    branch = if_op(emit, wrong, [], 1)
    here = Emitter(terminator(branch.regions[0].blocks[0]), location=waiting.location)
    address = here.op("memref.extract_aligned_pointer_as_index", [bits], [ir.IndexType.get()]).results[0]
    number = here.constant(lanes, ir.IntegerType.get_signless(32))
    here.op("func.call", [address, number], [], {"callee": ir.FlatSymbolRefAttr.get(image_layout.DIVERGED)})


def _each(emit: Emitter, extents: Extents, *carried: ir.Value) -> tuple[Emitter, ir.Value]:
    """Create a loop over the work-items; return where its operations go, and the work-item's number."""
    loop = for_loop(emit, extents.zero, extents.items, extents.one, carried)
    body = loop.regions[0].blocks[0]
    return Emitter(terminator(body)), body.arguments[0]


def _end_of(at: ir.Value) -> ir.Operation:
    return list(operations(at.owner))[-1]


def _bit(emit: Emitter, bits: ir.Value, at: ir.Value) -> ir.Value:
    value: ir.Value = emit.op("memref.load", [bits, at], [_byte()]).results[0]
    return value


def _byte() -> ir.Type:
    return ir.IntegerType.get_signless(8)
