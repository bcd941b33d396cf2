"""Conversions of floats of 8, 6 and 4 bits, in integer arithmetic, for every target.

Back ends know these types as bytes or bits only. Upstream's pass does arithmetic on them in f32 and leaves
conversions, which are expanded here. They round to nearest, ties to even. A number that is too large becomes
infinity, or NaN in types without infinities, as when LLVM folds constants. Types that have neither take the
largest number, for NaN as well. Memory of types of less than a byte has no addresses.

Scales, ``f8E8M0FNU``, are powers of two without sign or zero. ``arith.scaling_extf`` widens a value and
multiplies it by a scale, ``arith.scaling_truncf`` divides and narrows. Upstream's expansion of these reads
the smallest scale, 2 to the -127th, as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import element_type, first
from gpubuild.engine.legalize.arith_expansions import compare, like, splat

_EQ, _ULT, _UGT = 0, 6, 8  # arith.cmpi predicates
_OGT, _ONE = 2, 6  # arith.cmpf predicates
_F32_MANTISSA, _F32_BIAS = 23, 127
_F32_MAGNITUDE, _F32_INFINITY = 0x7FFFFFFF, 0x7F800000
_F32_NAN = _F32_INFINITY | 1 << (_F32_MANTISSA - 1)
_SCALE = "f8E8M0FNU"
_SMALLEST_SCALE = 1 << (_F32_MANTISSA - 1)  # 2 to the -127th as bits of an f32, where it is subnormal
_NAN_SCALE = 0xFF
_IEEE, _FINITE, _UNSIGNED_ZERO, _SATURATES = range(4)  # what takes the place of infinities and NaNs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format:
    mantissa: int  # bits
    bias: int
    kind: int
    bits: int = 8

    @property
    def sign_bit(self) -> int:
        """What a negative number has in addition."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> int:
        """The magnitude of the largest number."""
        return self.sign_bit - 1 if self.kind == _SATURATES else self.infinity - 1

    @property
    def infinity(self) -> int:
        """The magnitude that takes the place of what is too large for a number."""
        exponents = (1 << (self.bits - 1 - self.mantissa)) - 1
        all_ones = self.sign_bit - 1
        return {
            _IEEE: exponents << self.mantissa,
            _FINITE: all_ones,
            _UNSIGNED_ZERO: self.sign_bit,
            _SATURATES: all_ones,
        }[self.kind]

    @property
    def not_a_number(self) -> int:
        """The magnitude of a NaN; of types without infinities it is all there is beyond numbers."""
        return self.infinity | (1 << (self.mantissa - 1) if self.kind == _IEEE else 0)


FORMATS = {
    "f8E5M2": _Format(mantissa=2, bias=15, kind=_IEEE),
    "f8E4M3": _Format(mantissa=3, bias=7, kind=_IEEE),
    "f8E3M4": _Format(mantissa=4, bias=3, kind=_IEEE),
    "f8E4M3FN": _Format(mantissa=3, bias=7, kind=_FINITE),
    "f8E5M2FNUZ": _Format(mantissa=2, bias=16, kind=_UNSIGNED_ZERO),
    "f8E4M3FNUZ": _Format(mantissa=3, bias=8, kind=_UNSIGNED_ZERO),
    "f8E4M3B11FNUZ": _Format(mantissa=3, bias=11, kind=_UNSIGNED_ZERO),
    "f6E2M3FN": _Format(mantissa=3, bias=1, kind=_SATURATES, bits=6),
    "f6E3M2FN": _Format(mantissa=2, bias=3, kind=_SATURATES, bits=6),
    "f4E2M1FN": _Format(mantissa=1, bias=1, kind=_SATURATES, bits=4),
}
# Upstream's pass does not know this one by name; it is converted, and no arithmetic is done on it.
_CONVERTED_ONLY = "f8E4M3B11FNUZ"
_EMULATED = ",".join(name for name in FORMATS if name != _CONVERTED_ONLY)
_EMULATE = f"arith-emulate-unsupported-floats{{source-types={_EMULATED} target-type=f32}}"
_KEPT = frozenset({"arith.bitcast", "arith.constant", "arith.extf", "arith.select", "arith.truncf"})


def _emulate(module: ir.Module, lowering: Lowering) -> None:
    """Do arithmetic on small floats in f32, with conversions before and after."""
    if first(module.operation, _calculates) is not None:
        contexts.run_passes(module, f"builtin.module(gpu.module({_EMULATE}))", source=lowering.source)


def _calculates(op: ir.Operation) -> bool:
    return (
        op.name.startswith("arith.")
        and op.name not in _KEPT
        and any(str(element_type(v.type)) in FORMATS for v in (*op.operands, *op.results))
    )


def _extend(op: ir.Operation, _: Lowering) -> None:
    """``arith.extf`` from a small type: exact, by way of f32."""
    small, wanted = op.operands[0].type, op.results[0].type
    form = FORMATS.get(str(element_type(small)))
    if form is None:
        return
    emit = Emitter(op)
    i32 = like(small, ir.IntegerType.get_signless(32))
    f32 = like(small, ir.F32Type.get())
    byte = emit.op("arith.bitcast", [op.operands[0]], [like(small, ir.IntegerType.get_signless(form.bits))])
    bits = emit.op("arith.extui", [byte.results[0]], [i32]).results[0]
    magnitude = emit.binary("arith.andi", bits, splat(emit, form.sign_bit - 1, i32))
    shift = splat(emit, _F32_MANTISSA - form.mantissa, i32)
    normal = emit.binary(
        "arith.addi",
        emit.binary("arith.shli", magnitude, shift),
        splat(emit, (_F32_BIAS - form.bias) << _F32_MANTISSA, i32),
    )
    # Not by way of f32's own subnormals, which may be flushed.
    count = emit.op("arith.uitofp", [magnitude], [f32]).results[0]
    tiny = emit.binary("arith.mulf", count, _float(emit, 2.0 ** (1 - form.bias - form.mantissa), f32))
    tiny = emit.op("arith.bitcast", [tiny], [i32]).results[0]
    is_tiny = compare(emit, _ULT, magnitude, splat(emit, 1 << form.mantissa, i32))
    result = _select(emit, is_tiny, tiny, normal)
    sign = emit.binary("arith.andi", bits, splat(emit, form.sign_bit, i32))
    if form.kind == _UNSIGNED_ZERO:
        is_nan = compare(emit, _EQ, bits, splat(emit, form.sign_bit, i32))
        result = _select(emit, is_nan, splat(emit, _F32_NAN, i32), result)
    elif form.kind != _SATURATES:
        if form.kind == _IEEE:
            infinite = compare(emit, _EQ, magnitude, splat(emit, form.infinity, i32))
            result = _select(emit, infinite, splat(emit, _F32_INFINITY, i32), result)
        last = form.infinity if form.kind == _IEEE else form.infinity - 1
        is_nan = compare(emit, _UGT, magnitude, splat(emit, last, i32))
        result = _select(emit, is_nan, splat(emit, _F32_NAN, i32), result)
    result = emit.binary(
        "arith.ori", result, emit.binary("arith.shli", sign, splat(emit, 32 - form.bits, i32))
    )
    value = emit.op("arith.bitcast", [result], [f32]).results[0]
    if wanted != f32:
        width = ir.FloatType(element_type(wanted)).width
        value = emit.op("arith.extf" if width > 32 else "arith.truncf", [value], [wanted]).results[0]
    emit.replace(value)


def _truncate(op: ir.Operation, _: Lowering) -> None:
    """``arith.truncf`` to a small type, rounded once."""
    small = op.results[0].type
    form = FORMATS.get(str(element_type(small)))
    if form is None:
        return
    emit = Emitter(op)
    i32 = like(small, ir.IntegerType.get_signless(32))
    f32 = like(small, ir.F32Type.get())
    bits = as_f32_bits(emit, op.operands[0], i32, f32)
    magnitude = emit.binary("arith.andi", bits, splat(emit, _F32_MAGNITUDE, i32))
    rebased = emit.binary("arith.subi", magnitude, splat(emit, (_F32_BIAS - form.bias) << _F32_MANTISSA, i32))
    dropped = _F32_MANTISSA - form.mantissa
    shift = splat(emit, dropped, i32)
    odd = emit.binary("arith.andi", emit.binary("arith.shrui", rebased, shift), splat(emit, 1, i32))
    rounded = emit.binary("arith.addi", rebased, splat(emit, (1 << (dropped - 1)) - 1, i32))
    normal = emit.binary("arith.shrui", emit.binary("arith.addi", rounded, odd), shift)
    # Below the normal numbers: counted in the smallest step, and rounded by an addition that has no
    # room for fractions.
    value = emit.op("arith.bitcast", [magnitude], [f32]).results[0]
    steps = emit.binary("arith.mulf", value, _float(emit, 2.0 ** (form.bias - 1 + form.mantissa), f32))
    steps = emit.binary("arith.addf", steps, _float(emit, 2.0**_F32_MANTISSA, f32))
    count = emit.op("arith.bitcast", [steps], [i32]).results[0]
    base = (_F32_BIAS + _F32_MANTISSA) << _F32_MANTISSA
    tiny = emit.binary("arith.subi", count, splat(emit, base, i32))
    smallest = splat(emit, (_F32_BIAS - form.bias + 1) << _F32_MANTISSA, i32)
    result = _select(emit, compare(emit, _ULT, magnitude, smallest), tiny, normal)
    largest = splat(emit, form.largest, i32)
    above = compare(emit, _UGT, result, largest)
    result = _select(emit, above, splat(emit, form.infinity, i32), result)
    is_nan = compare(emit, _UGT, magnitude, splat(emit, _F32_INFINITY, i32))
    result = _select(emit, is_nan, splat(emit, form.not_a_number, i32), result)
    sign = emit.binary("arith.shrui", bits, splat(emit, 32 - form.bits, i32))
    sign = emit.binary("arith.andi", sign, splat(emit, form.sign_bit, i32))
    if form.kind == _UNSIGNED_ZERO:
        zero = splat(emit, 0, i32)
        sign = _select(emit, compare(emit, _EQ, result, zero), zero, sign)
    if form.kind == _SATURATES:
        sign = _select(emit, is_nan, splat(emit, 0, i32), sign)
    result = emit.binary("arith.ori", result, sign)
    byte = emit.op("arith.trunci", [result], [like(small, ir.IntegerType.get_signless(form.bits))]).results[0]
    emit.replace(emit.op("arith.bitcast", [byte], [small]).results[0])


def as_f32_bits(emit: Emitter, value: ir.Value, i32: ir.Type, f32: ir.Type) -> ir.Value:
    """Return ``value`` as bits of an f32 that rounds to the same small float."""
    width = ir.FloatType(element_type(value.type)).width
    if width < 32:
        value = emit.op("arith.extf", [value], [f32]).results[0]
    if width <= 32:
        return emit.op("arith.bitcast", [value], [i32]).results[0]
    # To odd: towards zero, with the last bit set when anything was lost, so that rounding again is right.
    near = emit.op("arith.truncf", [value], [f32]).results[0]
    bits = emit.op("arith.bitcast", [near], [i32]).results[0]
    back = emit.op(
        "math.absf", [emit.op("arith.extf", [near], [value.type]).results[0]], [value.type]
    ).results[0]
    exact = emit.op("math.absf", [value], [value.type]).results[0]
    one = splat(emit, 1, i32)
    away = _compare_floats(emit, _OGT, back, exact)
    below = _select(emit, away, emit.binary("arith.subi", bits, one), bits)
    lost = _compare_floats(emit, _ONE, back, exact)
    return _select(emit, lost, emit.binary("arith.ori", below, one), bits)


def _select(emit: Emitter, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    return emit.op("arith.select", [condition, yes, no], [yes.type]).results[0]


def _compare_floats(emit: Emitter, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    kind = like(left.type, ir.IntegerType.get_signless(1))
    return emit.op("arith.cmpf", [left, right], [kind], {"predicate": attribute}).results[0]


def _float(emit: Emitter, value: float, kind: ir.Type) -> ir.Value:
    element = ir.FloatAttr.get(element_type(kind), value)
    attribute: ir.Attribute = element
    if isinstance(kind, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(kind, element)
    return emit.op("arith.constant", [], [kind], {"value": attribute}).results[0]


def _expand_scaling(op: ir.Operation, _: Lowering) -> None:
    """Make conversions and a product of ``arith.scaling_*``; the conversions are expanded later."""
    value, scale = list(op.operands)
    wanted = op.results[0].type
    emit = Emitter(op)
    kind = like(scale.type, ir.Type.parse(_SCALE))
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


def _expand_scale_conversion(op: ir.Operation, _: Lowering) -> None:
    """``arith.extf`` from scales and ``arith.truncf`` to them."""
    if _is_scale(op.operands[0]):
        _extend_scale(op)
    elif _is_scale(op.results[0]):
        _truncate_to_scale(op)


def _is_scale(value: ir.Value) -> bool:
    return str(element_type(value.type)) == _SCALE


def _extend_scale(op: ir.Operation) -> None:
    scale, wanted = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, f32 = like(scale.type, ir.IntegerType.get_signless(32)), like(scale.type, ir.F32Type.get())
    byte = emit.op("arith.bitcast", [scale], [like(scale.type, ir.IntegerType.get_signless(8))])
    exponent = emit.op("arith.extui", [byte.results[0]], [i32]).results[0]
    bits = emit.binary("arith.shli", exponent, splat(emit, _F32_MANTISSA, i32))
    for code, special in ((0, _SMALLEST_SCALE), (_NAN_SCALE, _F32_NAN)):
        is_special = compare(emit, _EQ, exponent, splat(emit, code, i32))
        bits = emit.op("arith.select", [is_special, splat(emit, special, i32), bits], [i32]).results[0]
    value = emit.op("arith.bitcast", [bits], [f32]).results[0]
    if wanted != f32:
        wide = ir.FloatType(element_type(wanted)).width > 32
        value = emit.op("arith.extf" if wide else "arith.truncf", [value], [wanted]).results[0]
    emit.replace(value)


def _truncate_to_scale(op: ir.Operation) -> None:
    """To the nearest power of two, halves up as LLVM does it (all significands are odd); the sign goes."""
    value, kind = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, f32 = like(kind, ir.IntegerType.get_signless(32)), like(kind, ir.F32Type.get())
    bits = as_f32_bits(emit, value, i32, f32)
    magnitude = emit.binary("arith.andi", bits, splat(emit, _F32_MAGNITUDE, i32))
    rounded = emit.binary("arith.addi", magnitude, splat(emit, _SMALLEST_SCALE, i32))
    exponent = emit.binary("arith.shrui", rounded, splat(emit, _F32_MANTISSA, i32))
    # Among subnormal numbers, 2 to the -127th and, above three halves of it, 2 to the -126th.
    is_tiny = compare(emit, _ULT, magnitude, splat(emit, 2 * _SMALLEST_SCALE, i32))
    above = compare(emit, _UGT, magnitude, splat(emit, _SMALLEST_SCALE // 2 * 3 - 1, i32))
    tiny = emit.op("arith.extui", [above], [i32]).results[0]
    exponent = emit.op("arith.select", [is_tiny, tiny, exponent], [i32]).results[0]
    beyond = compare(emit, _UGT, exponent, splat(emit, _NAN_SCALE, i32))
    nan = splat(emit, _NAN_SCALE, i32)
    exponent = emit.op("arith.select", [beyond, nan, exponent], [i32]).results[0]
    byte = emit.op("arith.trunci", [exponent], [like(kind, ir.IntegerType.get_signless(8))]).results[0]
    emit.replace(emit.op("arith.bitcast", [byte], [kind]).results[0])


EMULATE: Pass[Lowering] = Pass(name="emulate-small-floats", run=_emulate)
EXPAND_CONVERSIONS = rewriting(
    "expand-small-float-conversions", {"arith.extf": _extend, "arith.truncf": _truncate}
)
EXPAND_SCALING = rewriting(
    "expand-scaling", {"arith.scaling_extf": _expand_scaling, "arith.scaling_truncf": _expand_scaling}
)
EXPAND_SCALE_CONVERSIONS = rewriting(
    "expand-e8m0-conversions",
    {"arith.extf": _expand_scale_conversion, "arith.truncf": _expand_scale_conversion},
)
