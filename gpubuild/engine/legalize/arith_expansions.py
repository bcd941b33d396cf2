"""Expansions of operations of arith, math, complex and vector that upstream lowers for no target.

Each becomes operations that every target has; patterns of vector that no pass of mlir-opt runs inside a
gpu.module; and the flags of fast mathematics.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, contains, rewriting
from gpubuild.engine.ir.query import element_type, matching, operations, scalar_bits
from gpubuild.engine.legalize.state import Legalization

_EQ, _SLT, _ULT = 0, 2, 6  # arith.cmpi predicates
_EXPONENT_BITS = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}  # mantissa, exponent
_F32_DIGITS, _WORD_BITS = 24, 64
# Ten bits below its first one, a number has more digits than bf16 takes. f32 holds 24 from each of these on.
_STICKY_BITS, _ABOVE_STICKY = (14, 28, 42), 10


def _expand_clamp(op: ir.Operation, _: Lowering) -> None:
    """``math.clampf``: the larger of value and minimum, then the smaller of that and the maximum."""
    emit = Emitter(op)
    value, low, high = op.operands
    emit.replace(emit.binary("arith.minimumf", emit.binary("arith.maximumf", value, low), high))


def _expand_is_normal(op: ir.Operation, _: Lowering) -> None:
    """``math.isnormal``: the exponent is neither the one of subnormals nor that of infinity."""
    emit = Emitter(op)
    kind = op.operands[0].type
    mantissa, exponent = _EXPONENT_BITS[str(element_type(kind))]
    integer = like(kind, ir.IntegerType.get_signless(mantissa + exponent + 1))
    bits = emit.op("arith.bitcast", [op.operands[0]], [integer]).results[0]
    step = 1 << mantissa
    largest = ((1 << exponent) - 1) << mantissa
    bits = emit.binary("arith.andi", bits, splat(emit, largest, integer))
    above = emit.binary("arith.subi", bits, splat(emit, step, integer))
    emit.replace(compare(emit, _ULT, above, splat(emit, largest - step, integer)))


def _expand_is_infinite(op: ir.Operation, _: Lowering) -> None:
    """``math.isinf``: all bits of the exponent, and none of the mantissa."""
    emit = Emitter(op)
    kind = op.operands[0].type
    mantissa, exponent = _EXPONENT_BITS[str(element_type(kind))]
    integer = like(kind, ir.IntegerType.get_signless(mantissa + exponent + 1))
    bits = emit.op("arith.bitcast", [op.operands[0]], [integer]).results[0]
    bits = emit.binary("arith.andi", bits, splat(emit, (1 << (mantissa + exponent)) - 1, integer))
    emit.replace(compare(emit, _EQ, bits, splat(emit, ((1 << exponent) - 1) << mantissa, integer)))


def _expand_sincos(op: ir.Operation, _: Lowering) -> None:
    """``math.sincos`` as sine and cosine."""
    emit = Emitter(op)
    flags = {"fastmath": op.attributes["fastmath"]} if "fastmath" in op.attributes else {}
    for name, result in zip(("math.sin", "math.cos"), op.results, strict=True):
        result.replace_all_uses_with(emit.op(name, [op.operands[0]], [result.type], flags).results[0])
    op.erase()


def _expand_integer_power(op: ir.Operation, _: Lowering) -> None:
    """``math.ipowi`` by squaring. Negative exponents give 1 / x^n rounded to zero."""
    emit = Emitter(op)
    base, exponent = op.operands
    kind = base.type
    one, zero = splat(emit, 1, kind), splat(emit, 0, kind)
    bits = ir.IntegerType(element_type(kind)).width
    result = _loop(
        emit,
        emit.constant(bits),
        [one, base, exponent],
        lambda at, carried: _square_step(at, carried, zero, one),
    )[0]
    odd = compare(emit, _EQ, emit.binary("arith.andi", exponent, one), one)
    minus = splat(emit, -1, kind)
    of_minus = emit.op("arith.select", [odd, minus, one], [kind]).results[0]
    inverse = emit.op("arith.select", [compare(emit, _EQ, base, minus), of_minus, zero], [kind]).results[0]
    inverse = emit.op("arith.select", [compare(emit, _EQ, base, one), one, inverse], [kind]).results[0]
    negative = compare(emit, _SLT, exponent, zero)
    emit.replace(emit.op("arith.select", [negative, inverse, result], [kind]).results[0])


def _square_step(at: Emitter, carried: list[ir.Value], zero: ir.Value, one: ir.Value) -> list[ir.Value]:
    result, factor, rest = carried
    kind = result.type
    none = compare(at, _EQ, at.binary("arith.andi", rest, one), zero)
    more = at.binary("arith.muli", result, factor)
    result = at.op("arith.select", [none, result, more], [kind]).results[0]
    return [result, at.binary("arith.muli", factor, factor), at.binary("arith.shrui", rest, one)]


def _widen_factors(op: ir.Operation, _: Lowering) -> None:
    """``vector.contract`` whose sums are wider than its factors: the dialect has those extended first."""
    kind = element_type(op.results[0].type)
    factors = [op.operands[0], op.operands[1]]
    narrow = [number for number, value in enumerate(factors) if element_type(value.type) != kind]
    if not narrow:
        return
    emit = Emitter(op)
    extend = "arith.extf" if isinstance(kind, ir.FloatType) else "arith.extsi"
    for number in narrow:
        value = factors[number]
        op.operands[number] = emit.op(extend, [value], [like(value.type, kind)]).results[0]


def _loop(
    emit: Emitter,
    count: ir.Value,
    start: list[ir.Value],
    step: Callable[[Emitter, list[ir.Value]], list[ir.Value]],
) -> list[ir.Value]:
    """An ``scf.for`` of ``count`` turns that carries values."""
    kinds = [v.type for v in start]
    loop = emit.op("scf.for", [emit.constant(0), count, emit.constant(1), *start], kinds, regions=1)
    body = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds)
    inside = emit.inside(body)
    inside.op("scf.yield", step(inside, list(body.arguments)[1:]), [])
    return list(loop.results)


def splat(emit: Emitter, value: int, kind: ir.Type) -> ir.Value:
    """An integer constant of ``kind``, which may be a vector."""
    if not isinstance(kind, ir.VectorType):
        return emit.constant(value, kind)
    element = ir.IntegerAttr.get(ir.VectorType(kind).element_type, value)
    attribute = ir.DenseElementsAttr.get_splat(kind, element)
    return emit.op("arith.constant", [], [kind], {"value": attribute}).results[0]


def compare(emit: Emitter, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
    """``arith.cmpi`` of values or vectors, by the number of its predicate."""
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    kind = like(left.type, ir.IntegerType.get_signless(1))
    return emit.op("arith.cmpi", [left, right], [kind], {"predicate": attribute}).results[0]


def like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """``element``, as a vector when ``kind`` is one."""
    if not isinstance(kind, ir.VectorType):
        return element
    vector = ir.VectorType(kind)
    return ir.VectorType.get(vector.shape, element)


def _round_integer_once(op: ir.Operation, _: Lowering) -> None:
    """``arith.sitofp`` and ``arith.uitofp`` to bf16, which back ends round to f32 first, and then again.

    Integers that f32 does not hold lose low bits for one that says whether there were any, which is as good
    for so short a result. (What goes by way of f64 upstream's patterns turn back.) Wider than 64 bits stay.
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
    """``value``; large ones with a one at ``sticky`` for any ones below."""
    kind = value.type
    low = emit.binary("arith.andi", value, splat(emit, (1 << sticky) - 1, kind))
    high = emit.binary("arith.xori", value, low)
    marked = emit.binary("arith.ori", high, splat(emit, 1 << sticky, kind))
    exact = compare(emit, _EQ, low, splat(emit, 0, kind))
    short = emit.op("arith.select", [exact, high, marked], [kind]).results[0]
    magnitude, limit = value, 1 << (sticky + _ABOVE_STICKY)
    if signed:
        magnitude, limit = emit.binary("arith.addi", value, splat(emit, limit, kind)), 2 * limit
    bits = ir.IntegerType(element_type(kind)).width
    limit -= 1 << bits if limit >> (bits - 1) else 0  # as a number with a sign
    small = compare(emit, _ULT, magnitude, splat(emit, limit, kind))
    return emit.op("arith.select", [small, value, short], [kind]).results[0]


def _expand_bitcast(op: ir.Operation, _: Lowering) -> None:
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
    half = scalar_bits(element)
    whole = ir.IntegerType.get_signless(2 * half)
    parts = []
    for name in ("complex.re", "complex.im"):
        part = _as(emit, emit.op(name, [value], [element]).results[0])
        parts.append(emit.op("arith.extui", [part], [whole]).results[0])
    upper = emit.binary("arith.shli", parts[1], emit.constant(half, whole))
    return emit.binary("arith.ori", parts[0], upper)


def _complex_of_bits(emit: Emitter, bits: ir.Value, wanted: ir.ComplexType) -> ir.Value:
    half = ir.IntegerType.get_signless(scalar_bits(wanted.element_type))
    upper = emit.binary("arith.shrui", bits, emit.constant(half.width, bits.type))
    parts = []
    for value in (bits, upper):
        part = emit.op("arith.trunci", [value], [half]).results[0]
        parts.append(emit.op("arith.bitcast", [part], [wanted.element_type]).results[0])
    return emit.op("complex.create", parts, [wanted]).results[0]


def _as(emit: Emitter, value: ir.Value) -> ir.Value:
    """``value`` as an integer of its width."""
    integer = ir.IntegerType.get_signless(scalar_bits(value.type))
    return value if value.type == integer else emit.op("arith.bitcast", [value], [integer]).results[0]


def _set_fast_math(module: ir.Module, _: Legalization) -> None:
    fast = ir.Attribute.parse("#arith.fastmath<fast>")
    for op in matching(module.operation, lambda op: "fastmath" in op.attributes):
        op.attributes["fastmath"] = fast


SET_FAST_MATH = Pass(name="set-fast-math-flags", run=_set_fast_math, when=lambda state: state.fast_math)
EXPAND_MATH = rewriting(
    "expand-math",
    {
        "math.clampf": _expand_clamp,
        "math.isnormal": _expand_is_normal,
        "math.ipowi": _expand_integer_power,
    },
)
# For targets whose conversion leaves them to others.
EXPAND_IS_INFINITE = rewriting("expand-isinf", {"math.isinf": _expand_is_infinite})
EXPAND_SINCOS = rewriting("expand-sincos", {"math.sincos": _expand_sincos})
ROUND_INTEGERS_ONCE = rewriting(
    "round-integers-once", {"arith.sitofp": _round_integer_once, "arith.uitofp": _round_integer_once}
)
EXPAND_COMPLEX_BITCAST = rewriting("expand-complex-bitcast", {"complex.bitcast": _expand_bitcast})
WIDEN_CONTRACT_FACTORS = rewriting("widen-contract-factors", {"vector.contract": _widen_factors})


# Ops that need them → patterns of the transform dialect.
_PATTERNS = {
    "vector.mask": "lower_masked_transfers",
    "vector.multi_reduction": 'lower_multi_reduction lowering_strategy = "innerreduction"',
    "vector.scan": "lower_scan",
}


def _apply_patterns(module: ir.Module, _: Lowering) -> None:
    """Lower what only patterns lower. Nothing is loaded when there is no such op."""
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
