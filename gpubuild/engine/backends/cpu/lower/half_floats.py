"""Arithmetic on f16 and bf16 for CPUs without instructions for them: in f32, with conversions in integers.

LLVM would call a function for each element and each operation, so that no loop is vectorised. f32 has more
than twice the digits, so that rounding its result again gives what rounding once would. Conversions round to
nearest, ties to even. NaN stays NaN, with its upper bits. What this leaves, such as ``fma`` and conversions
of f64, still becomes calls (half.ll).
"""

from __future__ import annotations

from collections.abc import Container

from mlir import ir

from gpubuild.engine.backends.cpu.lower.calls import functions
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Compare, Emitter, LlvmBuilder, replace
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import element_type, matching, shaped_like

_ARITHMETIC = (
    *("fadd", "fsub", "fmul", "fdiv", "frem", "fcmp", "sitofp", "uitofp", "fptosi", "fptoui"),
    *("intr.sqrt", "intr.floor", "intr.ceil", "intr.trunc", "intr.round", "intr.roundeven", "intr.rint"),
    *("intr.nearbyint", "intr.maximum", "intr.minimum", "intr.maxnum", "intr.minnum"),
)
_CONVERSIONS = ("llvm.fpext", "llvm.fptrunc")
_REDUCTIONS = {f"llvm.intr.vector.reduce.{name}": f"llvm.{name}" for name in ("fadd", "fmul")}
_MEMORY = ("llvm.load", "llvm.store")
_OPERATIONS = frozenset((*(f"llvm.{name}" for name in _ARITHMETIC), *_CONVERSIONS, *_REDUCTIONS, *_MEMORY))
_MOST_INLINED = 200  # operations in a function: each becomes 10 to 60, and LLVM's time grows with the square
# Bits of f32.
_SIGN, _MAGNITUDE, _INFINITY = 0x80000000, 0x7FFFFFFF, 0x7F800000
_REBIAS = 112 << 23  # the exponents of f32 are this much larger than those of f16
_HALF = 0x3F000000  # 0.5: multiples of 2 to the -24th, the smallest f16, are the last digits of a sum with it
_SMALLEST_NORMAL = 113 << 23  # of f16
# Bits of f16 and bf16.
_F16_INFINITY, _F16_QUIET, _F16_PAYLOAD, _BF16_QUIET = 0x7C00, 0x7E00, 0x1FF, 0x40
_SMALLEST_STEP = 2.0**-24


def _emulate(module: ir.Module, lowering: CpuLowering) -> None:
    """Replace operations on the types in ``lowering.converted_by_calls`` by calls of functions."""
    narrow = lowering.converted_by_calls
    if not narrow:
        return
    kernels = kernel_module(module)
    names: dict[str, str] = {}  # of functions, by what they do
    for function in functions(kernels):
        found = matching(function, lambda op: op.name in _OPERATIONS and _is_narrow(op, narrow))
        inline = "always_inline" if len(found) <= _MOST_INLINED else "no_inline"
        for op in found:
            if op.name in _MEMORY:
                _access_bits(op)
                continue
            kinds = [value.type for value in (*op.operands, *op.results)]
            attributes = [str(op.attributes[name]) for name in op.attributes]
            key = " ".join((inline, op.name, *map(str, kinds), *attributes))
            if key not in names:
                names[key] = f"gpubuild.{op.name.removeprefix('llvm.')}.{len(names)}"
                _define(names[key], inline, op, kernels.regions[0].blocks[0], narrow)
            call = Emitter(op).call(names[key], op.operands, [op.results[0].type])
            replace(op, call.results[0])


def _is_narrow(op: ir.Operation, narrow: Container[str]) -> bool:
    return any(str(element_type(value.type)) in narrow for value in (*op.operands, *op.results)) and not (
        op.name == "llvm.fptrunc" and element_type(op.operands[0].type) != ir.F32Type.get()
    )


def _access_bits(op: ir.Operation) -> None:
    """Load or store integers instead: LLVM takes vectors of bf16 apart, even to select some.

    Without ``freeze`` it makes a load of floats of the load and the cast.
    """
    build = LlvmBuilder(op)
    kind = (op.results or op.operands)[0].type
    bits = shaped_like(kind, ir.IntegerType.get_signless(16))
    if op.name == "llvm.store":
        op.operands[0] = build.value("llvm.bitcast", bits, op.operands[0])
        return
    attributes = {name: op.attributes[name] for name in op.attributes}
    loaded = build.value(op.name, bits, op.operands[0], **attributes)
    replace(op, build.value("llvm.bitcast", kind, build.value("llvm.freeze", bits, loaded)))


def _define(name: str, inline: str, op: ir.Operation, block: ir.Block, narrow: Container[str]) -> None:
    """Append a function to ``block`` that does what ``op`` does."""
    kind = op.results[0].type
    parameters = ", ".join(f"%a{i}: {value.type}" for i, value in enumerate(op.operands))
    function = ir.Operation.parse(
        f"llvm.func internal @{name}({parameters}) -> {kind} attributes {{{inline}}} {{\n"
        f"  %0 = llvm.mlir.poison : {kind}\n  llvm.return %0 : {kind}\n}}"
    )
    block.append(function)
    body = function.regions[0].blocks[0]
    poison, end = (view.operation for view in body.operations)
    build = LlvmBuilder(end)
    end.operands[0] = _emulated(build, op, list(body.arguments), narrow)
    poison.erase()


def _emulated(
    build: LlvmBuilder, op: ir.Operation, given: list[ir.Value], narrow: Container[str]
) -> ir.Value:
    """Return what ``op`` would make of the operands ``given``."""
    kind = op.results[0].type
    operands = [_extend(build, v) if str(element_type(v.type)) in narrow else v for v in given]
    wide = shaped_like(kind, ir.F32Type.get()) if str(element_type(kind)) in narrow else kind
    attributes = {name: op.attributes[name] for name in op.attributes}
    if op.name in _REDUCTIONS:
        value = given[0]
        for number in range(ir.VectorType(operands[1].type).shape[0]):
            element = build.value("llvm.extractelement", "f32", operands[1], build.constant(number))
            next_ = build.value(_REDUCTIONS[op.name], "f32", _extend(build, value), element, **attributes)
            value = _truncate(build, next_, kind)
        return value
    value = operands[0]
    if op.name not in _CONVERSIONS or value.type != wide:
        value = build.value(op.name, wide, *operands, **attributes)
    return value if wide == kind else _truncate(build, value, kind)


def _extend(build: LlvmBuilder, value: ir.Value) -> ir.Value:
    """Return ``value`` as an f32."""
    narrow = shaped_like(value.type, ir.IntegerType.get_signless(16))
    kind = shaped_like(value.type, ir.IntegerType.get_signless(32))
    f32 = shaped_like(value.type, ir.F32Type.get())
    bits = build.value("llvm.zext", kind, build.value("llvm.bitcast", narrow, value))
    if str(element_type(value.type)) == "bf16":
        return build.value("llvm.bitcast", f32, build.binary("shl", bits, build.constant(16, kind)))
    magnitude = build.binary("and", bits, build.constant(0x7FFF, kind))
    sign = build.binary("shl", build.binary("xor", bits, magnitude), build.constant(16, kind))
    shifted = build.binary("shl", magnitude, build.constant(13, kind))
    rebias = build.constant(_REBIAS, kind)
    normal = build.binary("add", shifted, rebias)
    special = build.compare(Compare.SGE, magnitude, build.constant(_F16_INFINITY, kind))
    normal = build.select(special, build.binary("add", normal, rebias), normal)
    # Not through f32's own subnormals, which may be flushed.
    steps = build.value("llvm.sitofp", f32, magnitude)
    tiny = build.binary("fmul", steps, build.constant(_SMALLEST_STEP, f32))
    is_tiny = build.compare(Compare.SLT, magnitude, build.constant(1 << 10, kind))
    result = build.select(is_tiny, build.value("llvm.bitcast", kind, tiny), normal)
    return build.value("llvm.bitcast", f32, build.binary("or", result, sign))


def _truncate(build: LlvmBuilder, value: ir.Value, wanted: ir.Type) -> ir.Value:
    """Return the f32 ``value`` rounded to ``wanted``."""
    kind = shaped_like(wanted, ir.IntegerType.get_signless(32))
    bits = build.value("llvm.bitcast", kind, value)
    magnitude = build.binary("and", bits, build.constant(_MAGNITUDE, kind))
    is_nan = build.compare(Compare.SGT, magnitude, build.constant(_INFINITY, kind))
    if str(element_type(wanted)) == "bf16":
        nan = build.binary("or", _upper(build, bits, 16), build.constant(_BF16_QUIET, kind))
        result = build.select(is_nan, nan, _rounded(build, bits, 16))
    else:
        payload = build.binary("and", _upper(build, magnitude, 13), build.constant(_F16_PAYLOAD, kind))
        nan = build.binary("or", payload, build.constant(_F16_QUIET, kind))
        normal = _rounded(build, magnitude, 13, -_REBIAS)
        infinity = build.constant(_F16_INFINITY, kind)
        normal = build.value("llvm.intr.umin", kind, normal, infinity)
        f32, half = value.type, build.constant(_HALF, kind)
        sum_ = build.binary(
            "fadd", build.value("llvm.bitcast", f32, magnitude), build.value("llvm.bitcast", f32, half)
        )
        tiny = build.binary("sub", build.value("llvm.bitcast", kind, sum_), half)
        is_tiny = build.compare(Compare.SLT, magnitude, build.constant(_SMALLEST_NORMAL, kind))
        result = build.select(is_nan, nan, build.select(is_tiny, tiny, normal))
        sign = build.binary("and", bits, build.constant(_SIGN, kind))
        result = build.binary("or", result, _upper(build, sign, 16))
    narrow = shaped_like(wanted, ir.IntegerType.get_signless(16))
    return build.value("llvm.bitcast", wanted, build.value("llvm.trunc", narrow, result))


def _upper(build: LlvmBuilder, bits: ir.Value, dropped: int) -> ir.Value:
    """Return ``bits`` without the ``dropped`` lowest."""
    return build.binary("lshr", bits, build.constant(dropped, bits.type))


def _rounded(build: LlvmBuilder, bits: ir.Value, dropped: int, added: int = 0) -> ir.Value:
    """Return ``bits + added`` rounded to nearest, ties to even, without the ``dropped`` lowest bits.

    ``added`` has none of these and leaves the next one.
    """
    odd = build.binary("and", _upper(build, bits, dropped), build.constant(1, bits.type))
    below_half = build.constant((1 << (dropped - 1)) - 1 + added, bits.type)
    return _upper(build, build.binary("add", build.binary("add", bits, below_half), odd), dropped)


EMULATE: Pass[CpuLowering] = Pass(name="emulate-16-bit-floats", run=_emulate)
