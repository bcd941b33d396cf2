"""Scales: ``f8E8M0FNU``, powers of two without sign or nought, and the conversions that scale by them.

``arith.scaling_extf`` widens a value and multiplies it by a scale, ``arith.scaling_truncf`` divides and
narrows. Upstream's expansion of these reads the smallest scale, 2 to the -127th, as nought.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import element_type
from gpubuild.engine.legalize.arith_expansions import compare, like, splat
from gpubuild.engine.legalize.small_floats import as_f32_bits

SCALE = "f8E8M0FNU"
_EQ, _ULT, _UGT = 0, 6, 8  # arith.cmpi predicates
_F32_MANTISSA = 23
_SMALLEST = 1 << (_F32_MANTISSA - 1)  # 2 to the -127th as bits of an f32, where it is subnormal
_MAGNITUDE, _QUIET_NAN, _NAN = 0x7FFFFFFF, 0x7FC00000, 0xFF


def _expand_scaling(op: ir.Operation, _: Lowering) -> None:
    """Make conversions and a product of ``arith.scaling_*``; the conversions are expanded later."""
    value, scale = list(op.operands)
    wanted = op.results[0].type
    emit = Emitter(op)
    kind = like(scale.type, ir.Type.parse(SCALE))
    if scale.type != kind:
        scale = emit.op("arith.truncf", [scale], [kind]).results[0]
    fast = {"fastmath": op.attributes["fastmath"]} if "fastmath" in op.attributes else {}
    widens = op.name == "arith.scaling_extf"
    wide = wanted if widens else value.type
    factor = emit.op("arith.extf", [scale], [wide]).results[0]
    if widens:
        value = emit.op("arith.extf", [value], [wide]).results[0]
        emit.replace(emit.op("arith.mulf", [value, factor], [wide], fast).results[0])
    else:
        value = emit.op("arith.divf", [value, factor], [wide], fast).results[0]
        emit.replace(emit.op("arith.truncf", [value], [wanted]).results[0])


def _expand_conversion(op: ir.Operation, _: Lowering) -> None:
    """``arith.extf`` from scales and ``arith.truncf`` to them."""
    if _is_scale(op.operands[0]):
        _extend(op)
    elif _is_scale(op.results[0]):
        _truncate(op)


def _is_scale(value: ir.Value) -> bool:
    return str(element_type(value.type)) == SCALE


def _extend(op: ir.Operation) -> None:
    scale, wanted = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, f32 = like(scale.type, ir.IntegerType.get_signless(32)), like(scale.type, ir.F32Type.get())
    byte = emit.op("arith.bitcast", [scale], [like(scale.type, ir.IntegerType.get_signless(8))])
    exponent = emit.op("arith.extui", [byte.results[0]], [i32]).results[0]
    bits = emit.binary("arith.shli", exponent, splat(emit, _F32_MANTISSA, i32))
    for code, special in ((0, _SMALLEST), (_NAN, _QUIET_NAN)):
        is_special = compare(emit, _EQ, exponent, splat(emit, code, i32))
        bits = emit.op("arith.select", [is_special, splat(emit, special, i32), bits], [i32]).results[0]
    value = emit.op("arith.bitcast", [bits], [f32]).results[0]
    if wanted != f32:
        wide = ir.FloatType(element_type(wanted)).width > 32
        value = emit.op("arith.extf" if wide else "arith.truncf", [value], [wanted]).results[0]
    emit.replace(value)


def _truncate(op: ir.Operation) -> None:
    """To the nearest power of two, halves up as LLVM does it (all significands are odd); the sign goes."""
    value, kind = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, f32 = like(kind, ir.IntegerType.get_signless(32)), like(kind, ir.F32Type.get())
    bits = as_f32_bits(emit, value, i32, f32)
    magnitude = emit.binary("arith.andi", bits, splat(emit, _MAGNITUDE, i32))
    rounded = emit.binary("arith.addi", magnitude, splat(emit, _SMALLEST, i32))
    exponent = emit.binary("arith.shrui", rounded, splat(emit, _F32_MANTISSA, i32))
    # Among subnormal numbers, 2 to the -127th and, above three halves of it, 2 to the -126th.
    is_tiny = compare(emit, _ULT, magnitude, splat(emit, 2 * _SMALLEST, i32))
    above = compare(emit, _UGT, magnitude, splat(emit, _SMALLEST // 2 * 3 - 1, i32))
    tiny = emit.op("arith.extui", [above], [i32]).results[0]
    exponent = emit.op("arith.select", [is_tiny, tiny, exponent], [i32]).results[0]
    beyond = compare(emit, _UGT, exponent, splat(emit, _NAN, i32))
    nan = splat(emit, _NAN, i32)
    exponent = emit.op("arith.select", [beyond, nan, exponent], [i32]).results[0]
    byte = emit.op("arith.trunci", [exponent], [like(kind, ir.IntegerType.get_signless(8))]).results[0]
    emit.replace(emit.op("arith.bitcast", [byte], [kind]).results[0])


EXPAND_SCALING = rewriting(
    "expand-scaling", {"arith.scaling_extf": _expand_scaling, "arith.scaling_truncf": _expand_scaling}
)
EXPAND_CONVERSIONS = rewriting(
    "expand-e8m0-conversions", {"arith.extf": _expand_conversion, "arith.truncf": _expand_conversion}
)
