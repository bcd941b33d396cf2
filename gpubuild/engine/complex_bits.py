"""Complex bits: ``complex.bitcast``, which upstream lowers for no target.

The real part is the lower half, as it is in memory on all targets.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.emit import Emitter


def expand_bitcast(op: ir.Operation) -> None:
    """By way of an integer of the width of both types."""
    emit = Emitter(op)
    value, wanted = op.operands[0], op.results[0].type
    bits = _bits_of_complex(emit, value) if isinstance(value.type, ir.ComplexType) else _as(emit, value)
    if isinstance(wanted, ir.ComplexType):
        emit.replace(_complex_of_bits(emit, bits, ir.ComplexType(wanted)))
    else:
        emit.replace(bits if bits.type == wanted else emit.op("arith.bitcast", [bits], [wanted]).results[0])


def _bits_of_complex(emit: Emitter, value: ir.Value) -> ir.Value:
    element = ir.ComplexType(value.type).element_type
    half = _width(element)
    whole = ir.IntegerType.get_signless(2 * half)
    parts = []
    for name in ("complex.re", "complex.im"):
        part = _as(emit, emit.op(name, [value], [element]).results[0])
        parts.append(emit.op("arith.extui", [part], [whole]).results[0])
    upper = emit.binary("arith.shli", parts[1], emit.constant(half, whole))
    return emit.binary("arith.ori", parts[0], upper)


def _complex_of_bits(emit: Emitter, bits: ir.Value, wanted: ir.ComplexType) -> ir.Value:
    half = ir.IntegerType.get_signless(_width(wanted.element_type))
    upper = emit.binary("arith.shrui", bits, emit.constant(half.width, bits.type))
    parts = []
    for value in (bits, upper):
        part = emit.op("arith.trunci", [value], [half]).results[0]
        parts.append(emit.op("arith.bitcast", [part], [wanted.element_type]).results[0])
    return emit.op("complex.create", parts, [wanted]).results[0]


def _as(emit: Emitter, value: ir.Value) -> ir.Value:
    """``value`` as an integer of its width."""
    integer = ir.IntegerType.get_signless(_width(value.type))
    return value if value.type == integer else emit.op("arith.bitcast", [value], [integer]).results[0]


def _width(kind: ir.Type) -> int:
    return int(ir.IntegerType(kind).width if isinstance(kind, ir.IntegerType) else ir.FloatType(kind).width)
