"""Masks: context arrays with a byte for each work-item, 1 where it takes part in divergent control flow."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, for_loop, if_then, set_operands
from gpubuild.engine.backends.cpu.fission.uniformity import terminator
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.support.frozen import frozen


@frozen
class Mask:
    """The work-items that run some code; ``last`` if no barrier follows it, and the others may have ended."""

    array: ir.Value
    last: bool


def keep(emit: Emitter, extents: Extents, bits: ir.Value, mask: ir.Value) -> None:
    """Clear the bits of work-items outside ``mask``, which may not have been set."""
    body, at = _each(emit, extents)
    value = body.binary("arith.andi", _bit(body, bits, at), _bit(body, mask, at))
    body.op("memref.store", [value, bits, at], [])


def fill(emit: Emitter, extents: Extents, bits: ir.Value, mask: ir.Value | None) -> None:
    """Set ``bits`` to those of ``mask``, or to 1 where there is none."""
    body, at = _each(emit, extents)
    value = body.constant(1, _byte()) if mask is None else _bit(body, mask, at)
    body.op("memref.store", [value, bits, at], [])


def others(emit: Emitter, extents: Extents, bits: ir.Value, chosen: ir.Value, mask: ir.Value | None) -> None:
    """Set ``bits`` to those in ``mask`` that are not in ``chosen``."""
    body, at = _each(emit, extents)
    value = body.binary("arith.xori", _bit(body, chosen, at), body.constant(1, _byte()))
    if mask is not None:
        value = body.binary("arith.andi", value, _bit(body, mask, at))
    body.op("memref.store", [value, bits, at], [])


def count(emit: Emitter, extents: Extents, bits: ir.Value) -> ir.Value:
    """Return how many work-items are in ``bits``, as an index."""
    i32 = ir.IntegerType.get_signless(32)
    body, at = _each(emit, extents, emit.constant(0, i32))
    one = body.op("arith.extui", [_bit(body, bits, at)], [i32]).results[0]
    set_operands(terminator(at.owner), [body.binary("arith.addi", at.owner.arguments[1], one)])
    total = at.owner.owner.operation.results[0]
    return emit.op("arith.index_castui", [total], [ir.IndexType.get()]).results[0]


def require_all(
    emit: Emitter, extents: Extents, bits: ir.Value, total: ir.Value, waiting: ir.Operation
) -> None:
    """Emit a test that ends the program unless ``bits`` has all work-items or none.

    ``total`` is the number of those it has, and ``waiting`` the op that some of them would never leave.
    """
    some = emit.binary(
        "arith.andi",
        emit.compare(Compare.NE, total, extents.zero),
        emit.compare(Compare.NE, total, extents.items),
    )
    _report(emit, some, bits, waiting, lanes=0)


def require_subgroups(emit: Emitter, extents: Extents, bits: ir.Value, waiting: ir.Operation) -> None:
    """Emit a test that ends the program unless ``bits`` has all of each subgroup or none of it."""
    body, at = _each(emit, extents, emit.constant(0, _byte()))
    first = body.binary("arith.andi", at, body.constant(-image_layout.SUBGROUP))
    unlike = body.binary("arith.xori", _bit(body, bits, at), _bit(body, bits, first))
    set_operands(terminator(at.owner), [body.binary("arith.ori", at.owner.arguments[1], unlike)])
    found = at.owner.owner.operation.results[0]
    _report(
        emit,
        emit.compare(Compare.NE, found, emit.constant(0, _byte())),
        bits,
        waiting,
        lanes=image_layout.SUBGROUP,
    )


def _report(emit: Emitter, wrong: ir.Value, bits: ir.Value, waiting: ir.Operation, *, lanes: int) -> None:
    here = Emitter(if_then(emit, wrong), location=waiting.location)
    address = here.op("memref.extract_aligned_pointer_as_index", [bits], [ir.IndexType.get()]).results[0]
    number = here.constant(lanes, ir.IntegerType.get_signless(32))
    here.op("func.call", [address, number], [], {"callee": ir.FlatSymbolRefAttr.get(image_layout.DIVERGED)})


def _each(emit: Emitter, extents: Extents, *carried: ir.Value) -> tuple[Emitter, ir.Value]:
    """Create a loop over the work-items; return an emitter in its body, and the work-item's number."""
    loop = for_loop(emit, extents.zero, extents.items, extents.one, carried)
    body = loop.regions[0].blocks[0]
    return Emitter(terminator(body)), body.arguments[0]


def _bit(emit: Emitter, bits: ir.Value, at: ir.Value) -> ir.Value:
    return emit.op("memref.load", [bits, at], [_byte()]).results[0]


def _byte() -> ir.Type:
    return ir.IntegerType.get_signless(8)
