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

import re

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Compare, CompareFloats, Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import element_type, first, shaped_like
from gpubuild.support.frozen import frozen

_F32_MANTISSA, _F32_BIAS = 23, 127
_F32_MAGNITUDE, _F32_INFINITY = 0x7FFFFFFF, 0x7F800000
_F32_NAN = _F32_INFINITY | 1 << (_F32_MANTISSA - 1)
_SCALE = "f8E8M0FNU"
_SMALLEST_SCALE = 1 << (_F32_MANTISSA - 1)  # 2 to the -127th as bits of an f32, where it is subnormal
_NAN_SCALE = 0xFF
_IEEE, _FINITE, _UNSIGNED_ZERO, _SATURATES = range(4)  # what replaces infinities and NaNs


@frozen
class _Format:
    mantissa: int  # bits
    bias: int
    kind: int
    bits: int = 8

    @property
    def sign_bit(self) -> int:
        """The bit of negative numbers."""
        return 1 << (self.bits - 1)

    @property
    def largest(self) -> int:
        """The magnitude of the largest number."""
        return self.sign_bit - 1 if self.kind == _SATURATES else self.infinity - 1

    @property
    def infinity(self) -> int:
        """The magnitude that numbers become that are too large."""
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
        """The magnitude of a NaN, which in types without infinities replaces these, too."""
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
# Upstream's pass does not know this one by name: it is converted only.
_CONVERTED_ONLY = "f8E4M3B11FNUZ"
_EMULATED = ",".join(name for name in FORMATS if name != _CONVERTED_ONLY)
_EMULATE = f"arith-emulate-unsupported-floats{{source-types={_EMULATED} target-type=f32}}"
_SMALL_FLOAT = re.compile(r"f[468]E\d")
_KEPT = frozenset({"arith.bitcast", "arith.constant", "arith.extf", "arith.select", "arith.truncf"})


def _emulate(module: ir.Module, lowering: Lowering) -> None:
    """Do arithmetic on small floats in f32, with conversions before and after."""
    text = lowering.source.text
    if text and not _SMALL_FLOAT.search(text):
        return  # much faster than a walk
    if first(module.operation, _calculates) is not None:
        contexts.run_passes(module, f"builtin.module(gpu.module({_EMULATE}))", source=lowering.source)


def _calculates(op: ir.Operation) -> bool:
    return (
        op.name.startswith("arith.")
        and op.name not in _KEPT
        and any(str(element_type(v.type)) in FORMATS for v in (*op.operands, *op.results))
    )


def _extend(op: ir.Operation, _: Lowering) -> None:
    """Expand ``arith.extf`` from a small type, which is exact, through f32."""
    small, wanted = op.operands[0].type, op.results[0].type
    form = FORMATS.get(str(element_type(small)))
    if form is None:
        return
    emit = Emitter(op)
    i32, f32 = _i32_and_f32(small)
    bits = _unpacked(emit, op.operands[0], form.bits)
    magnitude = emit.binary("arith.andi", bits, emit.constant(form.sign_bit - 1, i32))
    shift = emit.constant(_F32_MANTISSA - form.mantissa, i32)
    normal = emit.binary(
        "arith.addi",
        emit.binary("arith.shli", magnitude, shift),
        emit.constant((_F32_BIAS - form.bias) << _F32_MANTISSA, i32),
    )
    # Not through f32's own subnormals, which may be flushed.
    count = emit.value("arith.uitofp", [magnitude], f32)
    tiny = emit.binary("arith.mulf", count, emit.constant(2.0 ** (1 - form.bias - form.mantissa), f32))
    tiny = emit.value("arith.bitcast", [tiny], i32)
    is_tiny = emit.compare(Compare.ULT, magnitude, emit.constant(1 << form.mantissa, i32))
    result = emit.select(is_tiny, tiny, normal)
    sign = emit.binary("arith.andi", bits, emit.constant(form.sign_bit, i32))
    if form.kind == _UNSIGNED_ZERO:
        is_nan = emit.compare(Compare.EQ, bits, emit.constant(form.sign_bit, i32))
        result = emit.select(is_nan, emit.constant(_F32_NAN, i32), result)
    elif form.kind != _SATURATES:
        if form.kind == _IEEE:
            infinite = emit.compare(Compare.EQ, magnitude, emit.constant(form.infinity, i32))
            result = emit.select(infinite, emit.constant(_F32_INFINITY, i32), result)
        last = form.infinity if form.kind == _IEEE else form.infinity - 1
        is_nan = emit.compare(Compare.UGT, magnitude, emit.constant(last, i32))
        result = emit.select(is_nan, emit.constant(_F32_NAN, i32), result)
    result = emit.binary(
        "arith.ori", result, emit.binary("arith.shli", sign, emit.constant(32 - form.bits, i32))
    )
    emit.replace(_from_f32_bits(emit, result, wanted))


def _truncate(op: ir.Operation, _: Lowering) -> None:
    """Expand ``arith.truncf`` to a small type, rounded once."""
    small = op.results[0].type
    form = FORMATS.get(str(element_type(small)))
    if form is None:
        return
    emit = Emitter(op)
    i32, f32 = _i32_and_f32(small)
    bits = f32_bits(emit, op.operands[0])
    magnitude = emit.binary("arith.andi", bits, emit.constant(_F32_MAGNITUDE, i32))
    rebased = emit.binary(
        "arith.subi", magnitude, emit.constant((_F32_BIAS - form.bias) << _F32_MANTISSA, i32)
    )
    dropped = _F32_MANTISSA - form.mantissa
    shift = emit.constant(dropped, i32)
    odd = emit.binary("arith.andi", emit.binary("arith.shrui", rebased, shift), emit.constant(1, i32))
    rounded = emit.binary("arith.addi", rebased, emit.constant((1 << (dropped - 1)) - 1, i32))
    normal = emit.binary("arith.shrui", emit.binary("arith.addi", rounded, odd), shift)
    # Below the normal numbers: multiples of the smallest step, rounded by adding a number that leaves no bits
    # for fractions.
    value = emit.value("arith.bitcast", [magnitude], f32)
    steps = emit.binary("arith.mulf", value, emit.constant(2.0 ** (form.bias - 1 + form.mantissa), f32))
    steps = emit.binary("arith.addf", steps, emit.constant(2.0**_F32_MANTISSA, f32))
    count = emit.value("arith.bitcast", [steps], i32)
    base = (_F32_BIAS + _F32_MANTISSA) << _F32_MANTISSA
    tiny = emit.binary("arith.subi", count, emit.constant(base, i32))
    smallest = emit.constant((_F32_BIAS - form.bias + 1) << _F32_MANTISSA, i32)
    result = emit.select(emit.compare(Compare.ULT, magnitude, smallest), tiny, normal)
    largest = emit.constant(form.largest, i32)
    above = emit.compare(Compare.UGT, result, largest)
    result = emit.select(above, emit.constant(form.infinity, i32), result)
    is_nan = emit.compare(Compare.UGT, magnitude, emit.constant(_F32_INFINITY, i32))
    result = emit.select(is_nan, emit.constant(form.not_a_number, i32), result)
    sign = emit.binary("arith.shrui", bits, emit.constant(32 - form.bits, i32))
    sign = emit.binary("arith.andi", sign, emit.constant(form.sign_bit, i32))
    if form.kind == _UNSIGNED_ZERO:
        zero = emit.constant(0, i32)
        sign = emit.select(emit.compare(Compare.EQ, result, zero), zero, sign)
    if form.kind == _SATURATES:
        sign = emit.select(is_nan, emit.constant(0, i32), sign)
    result = emit.binary("arith.ori", result, sign)
    emit.replace(_packed(emit, result, form.bits, small))


def _i32_and_f32(kind: ir.Type) -> tuple[ir.Type, ir.Type]:
    return shaped_like(kind, ir.IntegerType.get_signless(32)), shaped_like(kind, ir.F32Type.get())


def _unpacked(emit: Emitter, value: ir.Value, width: int) -> ir.Value:
    """Return the bits of ``value`` as an i32."""
    narrow = emit.value("arith.bitcast", [value], shaped_like(value.type, ir.IntegerType.get_signless(width)))
    return emit.value("arith.extui", [narrow], _i32_and_f32(value.type)[0])


def _packed(emit: Emitter, bits: ir.Value, width: int, kind: ir.Type) -> ir.Value:
    """Return the number of type ``kind`` whose bits are the low ones of an i32."""
    narrow = emit.value("arith.trunci", [bits], shaped_like(kind, ir.IntegerType.get_signless(width)))
    return emit.value("arith.bitcast", [narrow], kind)


def _from_f32_bits(emit: Emitter, bits: ir.Value, wanted: ir.Type) -> ir.Value:
    """Return the number of type ``wanted`` that the bits of an f32 are."""
    f32 = _i32_and_f32(bits.type)[1]
    value = emit.value("arith.bitcast", [bits], f32)
    if wanted == f32:
        return value
    wide = ir.FloatType(element_type(wanted)).width > 32
    return emit.value("arith.extf" if wide else "arith.truncf", [value], wanted)


def f32_bits(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return ``value`` as bits of an f32 that rounds to the same small float."""
    i32, f32 = _i32_and_f32(value.type)
    width = ir.FloatType(element_type(value.type)).width
    if width < 32:
        value = emit.value("arith.extf", [value], f32)
    if width <= 32:
        return emit.value("arith.bitcast", [value], i32)
    # Round to odd: towards zero, with the last bit set when bits were lost, so that rounding again is right.
    near = emit.value("arith.truncf", [value], f32)
    bits = emit.value("arith.bitcast", [near], i32)
    back = emit.value("math.absf", [emit.value("arith.extf", [near], value.type)], value.type)
    exact = emit.value("math.absf", [value], value.type)
    one = emit.constant(1, i32)
    away = emit.compare_floats(CompareFloats.GT, back, exact)
    below = emit.select(away, emit.binary("arith.subi", bits, one), bits)
    lost = emit.compare_floats(CompareFloats.NE, back, exact)
    return emit.select(lost, emit.binary("arith.ori", below, one), bits)


def _expand_scaling(op: ir.Operation, _: Lowering) -> None:
    """Expand ``arith.scaling_*`` to conversions, which are expanded later, and a product or quotient."""
    value, scale = list(op.operands)
    wanted = op.results[0].type
    emit = Emitter(op)
    kind = shaped_like(scale.type, ir.Type.parse(_SCALE))
    if scale.type != kind:
        scale = emit.value("arith.truncf", [scale], kind)
    fast = {"fastmath": op.attributes["fastmath"]} if "fastmath" in op.attributes else {}
    widens = op.name == "arith.scaling_extf"
    wide = wanted if widens else value.type
    factor = emit.value("arith.extf", [scale], wide)
    if widens:
        value = emit.value("arith.extf", [value], wide)
        emit.replace(emit.value("arith.mulf", [value, factor], wide, fast))
    else:
        value = emit.value("arith.divf", [value, factor], wide, fast)
        emit.replace(emit.value("arith.truncf", [value], wanted))


def _expand_scale_conversion(op: ir.Operation, _: Lowering) -> None:
    """Expand ``arith.extf`` from scales and ``arith.truncf`` to them."""
    if _is_scale(op.operands[0]):
        _extend_scale(op)
    elif _is_scale(op.results[0]):
        _truncate_to_scale(op)


def _is_scale(value: ir.Value) -> bool:
    return str(element_type(value.type)) == _SCALE


def _extend_scale(op: ir.Operation) -> None:
    scale, wanted = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, _ = _i32_and_f32(scale.type)
    exponent = _unpacked(emit, scale, 8)
    bits = emit.binary("arith.shli", exponent, emit.constant(_F32_MANTISSA, i32))
    for code, special in ((0, _SMALLEST_SCALE), (_NAN_SCALE, _F32_NAN)):
        is_special = emit.compare(Compare.EQ, exponent, emit.constant(code, i32))
        bits = emit.select(is_special, emit.constant(special, i32), bits)
    emit.replace(_from_f32_bits(emit, bits, wanted))


def _truncate_to_scale(op: ir.Operation) -> None:
    """Round to the nearest power of two, halves up as LLVM does (all significands are odd); drop the sign."""
    value, kind = op.operands[0], op.results[0].type
    emit = Emitter(op)
    i32, _ = _i32_and_f32(kind)
    bits = f32_bits(emit, value)
    magnitude = emit.binary("arith.andi", bits, emit.constant(_F32_MAGNITUDE, i32))
    rounded = emit.binary("arith.addi", magnitude, emit.constant(_SMALLEST_SCALE, i32))
    exponent = emit.binary("arith.shrui", rounded, emit.constant(_F32_MANTISSA, i32))
    # A subnormal number is 2 to the -127th or, above three halves of it, 2 to the -126th.
    is_tiny = emit.compare(Compare.ULT, magnitude, emit.constant(2 * _SMALLEST_SCALE, i32))
    above = emit.compare(Compare.UGT, magnitude, emit.constant(_SMALLEST_SCALE // 2 * 3 - 1, i32))
    tiny = emit.value("arith.extui", [above], i32)
    exponent = emit.select(is_tiny, tiny, exponent)
    beyond = emit.compare(Compare.UGT, exponent, emit.constant(_NAN_SCALE, i32))
    nan = emit.constant(_NAN_SCALE, i32)
    exponent = emit.select(beyond, nan, exponent)
    emit.replace(_packed(emit, exponent, 8, kind))


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
