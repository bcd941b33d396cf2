"""Expansions of operations of arith, math, complex and vector that upstream lowers for no target.

Each becomes operations that every target has; patterns of vector that no pass of mlir-opt runs inside a
gpu.module; and the flags of fast mathematics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import TypeVar

from mlir import ir

from gpubuild.engine.ir.builder import Compare, CompareFloats, Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, contains, rewrite_each, rewriting
from gpubuild.engine.ir.query import element_type, matching, operations, scalar_bits, shaped_like
from gpubuild.engine.legalize.state import Legalization

S = TypeVar("S", bound=Legalization)
_FLAGS = re.compile(r"#arith\.fastmath<(.*)>")
_FINITE_ONLY = ("nnan", "ninf")
_APPROXIMATE = ("afn", "arcp", "contract")
_FAST_BUT_EXACT = ("reassoc", "nnan", "ninf", "nsz", "arcp", "contract")
_ROOTS = ("math.sqrt", "math.rsqrt")
_EXPONENT_BITS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}  # mantissa, exponent
_F32_DIGITS, _WORD_BITS = 24, 64
# Ten bits below its first one, a number has more digits than bf16 has. From each of these bits, f32 holds 24.
_STICKY_BITS, _ABOVE_STICKY = (14, 28, 42), 10
# By operation: LLVM's intrinsic that returns NaN if an operand is NaN, and the one that returns the other.
_EXTREMA = {  # the operation that returns NaN if an operand is NaN, and the intrinsic that ignores NaN
    "arith.maximumf": ("llvm.intr.maximum", "llvm.maximumnum"),
    "arith.minimumf": ("llvm.intr.minimum", "llvm.minimumnum"),
    "arith.maxnumf": ("", "llvm.maximumnum"),
    "arith.minnumf": ("", "llvm.minimumnum"),
}
_ORDERED_ZEROS = frozenset({"f16", "f32", "f64"})  # types whose minimum and maximum every GPU has


def _expand_clamp(op: ir.Operation, _: Lowering) -> None:
    """Expand ``math.clampf``: the larger of value and minimum, then the smaller of that and the maximum."""
    emit = Emitter(op)
    value, low, high = op.operands
    emit.replace(emit.binary("arith.minimumf", emit.binary("arith.maximumf", value, low), high))


def _expand_is_normal(op: ir.Operation, _: Lowering) -> None:
    """Expand ``math.isnormal``: the exponent is neither that of subnormals nor that of infinity."""
    emit = Emitter(op)
    bits, integer, step, infinity = _float_bits(emit, op.operands[0])
    bits = emit.binary("arith.andi", bits, emit.constant(infinity, integer))
    above = emit.binary("arith.subi", bits, emit.constant(step, integer))
    emit.replace(emit.compare(Compare.ULT, above, emit.constant(infinity - step, integer)))


def _expand_is_infinite(op: ir.Operation, _: Lowering) -> None:
    """Expand ``math.isinf``: all bits of the exponent, and none of the mantissa."""
    emit = Emitter(op)
    bits, integer, step, infinity = _float_bits(emit, op.operands[0])
    bits = emit.binary("arith.andi", bits, emit.constant(infinity | (step - 1), integer))
    emit.replace(emit.compare(Compare.EQ, bits, emit.constant(infinity, integer)))


def _float_bits(emit: Emitter, value: ir.Value) -> tuple[ir.Value, ir.Type, int, int]:
    """Return the bits of ``value``, their type, the lowest bit of the exponent, and infinity."""
    mantissa, exponent = _EXPONENT_BITS[str(element_type(value.type))]
    integer = shaped_like(value.type, ir.IntegerType.get_signless(mantissa + exponent + 1))
    bits = emit.value("arith.bitcast", [value], integer)
    return bits, integer, 1 << mantissa, ((1 << exponent) - 1) << mantissa


def _expand_sincos(op: ir.Operation, _: Lowering) -> None:
    """Expand ``math.sincos`` to sine and cosine."""
    emit = Emitter(op)
    flags = {"fastmath": op.attributes["fastmath"]} if "fastmath" in op.attributes else {}
    for name, result in zip(("math.sin", "math.cos"), op.results, strict=True):
        result.replace_all_uses_with(emit.value(name, [op.operands[0]], result.type, flags))
    op.erase()


def _expand_integer_power(op: ir.Operation, _: Lowering) -> None:
    """Expand ``math.ipowi`` to squares. Negative exponents give 1 / x^n rounded to zero."""
    emit = Emitter(op)
    base, exponent = op.operands
    kind = base.type
    one, zero = emit.constant(1, kind), emit.constant(0, kind)
    bits = ir.IntegerType(element_type(kind)).width

    def square(at: Emitter, _: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        result, factor, rest = carried
        none = at.compare(Compare.EQ, at.binary("arith.andi", rest, one), zero)
        result = at.select(none, result, at.binary("arith.muli", result, factor))
        return [result, at.binary("arith.muli", factor, factor), at.binary("arith.shrui", rest, one)]

    result = emit.loop(emit.constant(bits), [one, base, exponent], square)[0]
    odd = emit.compare(Compare.EQ, emit.binary("arith.andi", exponent, one), one)
    minus = emit.constant(-1, kind)
    of_minus = emit.select(odd, minus, one)
    inverse = emit.select(emit.compare(Compare.EQ, base, minus), of_minus, zero)
    inverse = emit.select(emit.compare(Compare.EQ, base, one), one, inverse)
    negative = emit.compare(Compare.SLT, exponent, zero)
    emit.replace(emit.select(negative, inverse, result))


def _widen_factors(op: ir.Operation, _: Lowering) -> None:
    """Extend the factors of a ``vector.contract`` whose sums are wider, as the dialect defines it."""
    kind = element_type(op.results[0].type)
    factors = [op.operands[0], op.operands[1]]
    narrow = [number for number, value in enumerate(factors) if element_type(value.type) != kind]
    if not narrow:
        return
    emit = Emitter(op)
    extend = "arith.extf" if isinstance(kind, ir.FloatType) else "arith.extsi"
    for number in narrow:
        value = factors[number]
        op.operands[number] = emit.value(extend, [value], shaped_like(value.type, kind))


def _round_integer_once(op: ir.Operation, _: Lowering) -> None:
    """Convert integers to bf16 with one rounding: back ends round to f32 first, and then again.

    In integers that f32 does not hold, one sticky bit replaces the low bits, which is enough for so short a
    result. (Upstream's patterns undo a conversion through f64.) Integers of more than 64 bits stay.
    """
    value, result = op.operands[0], op.results[0]
    bits = ir.IntegerType(element_type(value.type)).width
    if str(element_type(result.type)) != "bf16" or not _F32_DIGITS < bits <= _WORD_BITS:
        return
    emit = Emitter(op)
    signed = op.name == "arith.sitofp"
    for sticky in _STICKY_BITS:
        if sticky + _ABOVE_STICKY + signed < bits:
            value = _with_sticky_bit(value, sticky, emit, signed=signed)
    op.operands[0] = value


def _with_sticky_bit(value: ir.Value, sticky: int, emit: Emitter, *, signed: bool) -> ir.Value:
    """Return ``value``, where a large one has bit ``sticky`` set for any ones below it."""
    kind = value.type
    low = emit.binary("arith.andi", value, emit.constant((1 << sticky) - 1, kind))
    high = emit.binary("arith.xori", value, low)
    marked = emit.binary("arith.ori", high, emit.constant(1 << sticky, kind))
    exact = emit.compare(Compare.EQ, low, emit.constant(0, kind))
    short = emit.select(exact, high, marked)
    magnitude, limit = value, 1 << (sticky + _ABOVE_STICKY)
    if signed:
        magnitude, limit = emit.binary("arith.addi", value, emit.constant(limit, kind)), 2 * limit
    bits = ir.IntegerType(element_type(kind)).width
    limit -= 1 << bits if limit >> (bits - 1) else 0  # as a signed number
    small = emit.compare(Compare.ULT, magnitude, emit.constant(limit, kind))
    return emit.select(small, value, short)


def extrema_to_llvm(propagate_nan: Callable[[S], Collection[str]]) -> Pass[S]:
    """Return the pass that lowers minima and maxima of GPUs, which ``arith-expand`` would expand.

    To the instructions of all GPUs, -0.0 is less than 0.0. Those for types in ``propagate_nan`` can return
    NaN if an operand is NaN; the others return the other operand. Types that no GPU has, and vectors of
    several dimensions, stay.
    """

    def run(module: ir.Module, state: S) -> None:
        whole = propagate_nan(state)
        known = _ORDERED_ZEROS.union(whole)
        parsed: dict[str, ir.Attribute] = {}

        def lower(op: ir.Operation) -> None:
            kind = op.results[0].type
            scalar = str(element_type(kind))
            if scalar not in known or (scalar != str(kind) and not _is_row(kind)):
                return
            emit = Emitter(op)
            left, right = op.operands
            found = _FLAGS.fullmatch(str(op.attributes["fastmath"]))
            words = found[1] if found else "none"
            if words not in parsed:
                parsed[words] = ir.Attribute.parse(f"#llvm.fastmath<{words}>")
            flags = {"fastmathFlags": parsed[words]}
            propagating, numeric = _EXTREMA[op.name]
            if propagating and scalar in whole:
                emit.replace(emit.value(propagating, [left, right], kind, flags))
                return
            value = emit.call_intrinsic(numeric, [kind], [left, right], flags).results[0]
            if propagating and not {"nnan", "fast"}.intersection(words.split(",")):
                numbers = emit.compare_floats(CompareFloats.ORDERED, left, right)
                value = emit.select(numbers, value, emit.constant(math.nan, kind))
            emit.replace(value)

        rewrite_each(module.operation, dict.fromkeys(_EXTREMA, lower))

    return Pass(name="extrema-to-llvm", run=run)


def _is_row(kind: ir.Type) -> bool:
    return isinstance(kind, ir.VectorType) and kind.rank == 1 and not kind.scalable


def _expand_bitcast(op: ir.Operation, _: Lowering) -> None:
    """Expand ``complex.bitcast`` through an integer. The real part is the lower half, as in memory."""
    emit = Emitter(op)
    value, wanted = op.operands[0], op.results[0].type
    bits = _bits_of_complex(emit, value) if isinstance(value.type, ir.ComplexType) else _as(emit, value)
    if isinstance(wanted, ir.ComplexType):
        emit.replace(_complex_of_bits(emit, bits, wanted))
    else:
        emit.replace(bits if bits.type == wanted else emit.value("arith.bitcast", [bits], wanted))


def _bits_of_complex(emit: Emitter, value: ir.Value) -> ir.Value:
    element = value.type.element_type
    half = scalar_bits(element)
    whole = ir.IntegerType.get_signless(2 * half)
    parts = []
    for name in ("complex.re", "complex.im"):
        part = _as(emit, emit.value(name, [value], element))
        parts.append(emit.value("arith.extui", [part], whole))
    upper = emit.binary("arith.shli", parts[1], emit.constant(half, whole))
    return emit.binary("arith.ori", parts[0], upper)


def _complex_of_bits(emit: Emitter, bits: ir.Value, wanted: ir.ComplexType) -> ir.Value:
    half = ir.IntegerType.get_signless(scalar_bits(wanted.element_type))
    upper = emit.binary("arith.shrui", bits, emit.constant(half.width, bits.type))
    parts = []
    for value in (bits, upper):
        part = emit.value("arith.trunci", [value], half)
        parts.append(emit.value("arith.bitcast", [part], wanted.element_type))
    return emit.value("complex.create", parts, wanted)


def _as(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return ``value`` as an integer of its width."""
    integer = ir.IntegerType.get_signless(scalar_bits(value.type))
    return value if value.type == integer else emit.value("arith.bitcast", [value], integer)


def _set_flags(module: ir.Module, state: Legalization) -> None:
    """Set the target's flags on every operation that can have some."""
    for op in matching(module.operation, lambda op: "fastmath" in op.attributes):
        given = _FLAGS.fullmatch(str(op.attributes["fastmath"]))
        words = given[1].split(",") if given and given[1] != "none" else []
        flags = ["fast"] if state.fast_math else [*words, *_FINITE_ONLY * state.finite_only]
        if op.name in _ROOTS and state.fast_math and state.exact_roots:
            flags = [*_FAST_BUT_EXACT]
        elif op.name in _ROOTS and not state.exact_roots:
            flags += _APPROXIMATE
        flags = list(dict.fromkeys(flags)) or ["none"]
        op.attributes["fastmath"] = ir.Attribute.parse(f"#arith.fastmath<{','.join(flags)}>")


SET_FAST_MATH = Pass(
    name="set-fast-math-flags",
    run=_set_flags,
    when=lambda state: state.fast_math or state.finite_only or not state.exact_roots,
)
EXPAND_MATH = rewriting(
    "expand-math",
    {
        "math.clampf": _expand_clamp,
        "math.isnormal": _expand_is_normal,
        "math.ipowi": _expand_integer_power,
    },
)
# For AMD GPUs; the conversions of other targets have them.
EXPAND_IS_INFINITE = rewriting("expand-isinf", {"math.isinf": _expand_is_infinite})
EXPAND_SINCOS = rewriting("expand-sincos", {"math.sincos": _expand_sincos})
ROUND_INTEGERS_ONCE = rewriting(
    "round-integers-once", {"arith.sitofp": _round_integer_once, "arith.uitofp": _round_integer_once}
)
EXPAND_COMPLEX_BITCAST = rewriting("expand-complex-bitcast", {"complex.bitcast": _expand_bitcast})
WIDEN_CONTRACT_FACTORS = rewriting("widen-contract-factors", {"vector.contract": _widen_factors})


# Operation → the patterns of the transform dialect that lower it.
_PATTERNS = {
    "vector.mask": "lower_masked_transfers",
    "vector.multi_reduction": 'lower_multi_reduction lowering_strategy = "innerreduction"',
    "vector.scan": "lower_scan",
}


def _apply_patterns(module: ir.Module, _: Lowering) -> None:
    """Lower operations that only patterns lower. Nothing is loaded where the module has none."""
    if not contains(module.operation, _PATTERNS):
        return
    found = dict.fromkeys(op.name for op in operations(module.operation, _PATTERNS))
    from mlir.dialects.transform import interpreter

    wanted = "\n".join(f"transform.apply_patterns.vector.{_PATTERNS[name]}" for name in found)
    script = ir.Module.parse(f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @main(%module: !transform.any_op) {{
    transform.apply_patterns to %module {{
      {wanted}
    }} : !transform.any_op
    transform.yield
  }}
}}""")
    interpreter.apply_named_sequence(module, script.body.operations[0], script)


LOWER_VECTORS: Pass[Lowering] = Pass(name="lower-vector-patterns", run=_apply_patterns)
