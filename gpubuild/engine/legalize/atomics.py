"""Atomic updates: products, and regions on floats, in the forms that targets have instructions for."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import scalar_bits

_PRODUCTS = {12: "arith.mulf", 13: "arith.muli"}  # enum AtomicRMWKind


def _expand_product(op: ir.Operation, _: Lowering) -> None:
    """``memref.atomic_rmw`` of a product as a compare-and-exchange loop."""
    function = _PRODUCTS.get(ir.IntegerAttr(op.attributes["kind"]).value)
    if function is None:
        return
    emit = Emitter(op)
    value, memory, *indices = list(op.operands)
    atomic = emit.op("memref.generic_atomic_rmw", [memory, *indices], [value.type], regions=1)
    body = atomic.regions[0].blocks.append(value.type)
    inside = emit.inside(body)
    inside.op("memref.atomic_yield", [inside.binary(function, body.arguments[0], value)], [])
    emit.replace(atomic.results[0])


def _use_integers(op: ir.Operation, _: Lowering) -> None:
    """Make ``memref.generic_atomic_rmw`` on floats work on integers of the same width.

    Compare-and-exchange takes integers only. The two memref types lower to one and the same LLVM
    type, so that the cast between them disappears.
    """
    element = op.results[0].type
    if not isinstance(element, ir.FloatType):
        return
    integer = ir.IntegerType.get_signless(scalar_bits(element))
    emit = Emitter(op)
    memory = emit.cast(op.operands[0], _with_element(op.operands[0].type, integer))
    atomic = emit.op(
        "memref.generic_atomic_rmw", [memory, *list(op.operands)[1:]], [integer], regions=1
    ).operation
    old_block = op.regions[0].blocks[0]
    # Moving the block keeps its ops; its one argument then gets the integer type, seen through a cast.
    old_block.append_to(atomic.regions[0])
    argument = old_block.arguments[0]
    inside = Emitter(old_block.operations[0].operation)
    value = inside.op("arith.bitcast", [argument], [element])
    argument.replace_all_uses_except(value.results[0], value.operation)
    argument.set_type(integer)
    end = old_block.operations[len(old_block.operations) - 1].operation
    closing = Emitter(end)
    bits = closing.op("arith.bitcast", [end.operands[0]], [integer]).results[0]
    closing.op("memref.atomic_yield", [bits], [])
    end.erase()
    emit.replace(emit.op("arith.bitcast", [atomic.results[0]], [element]).results[0])


def _with_element(memory: ir.Type, element: ir.Type) -> ir.Type:
    shaped = ir.MemRefType(memory)
    return ir.MemRefType.get(shaped.shape, element, shaped.layout, shaped.memory_space)


EXPAND_PRODUCTS = rewriting("expand-atomic-products", {"memref.atomic_rmw": _expand_product})
USE_INTEGERS = rewriting("float-atomics-to-integers", {"memref.generic_atomic_rmw": _use_integers})
