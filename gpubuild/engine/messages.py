"""Messages: the arguments of what kernels print, on every kind of target."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine import formats
from gpubuild.engine.emit import Emitter

_WORD_BITS, _DOUBLE_BITS = 32, 64


def printf_refusal(op: ir.Operation) -> str:
    """Why ``gpu.printf`` cannot be compiled, or an empty string."""
    for value in op.operands:
        if isinstance(value.type, ir.IntegerType) and ir.IntegerType(value.type).width > _DOUBLE_BITS:
            return f"'{op.name}' of {value.type}: there is no format for integers wider than 64 bits"
        if str(value.type) in {"f80", "f128"}:
            return f"'{op.name}' of {value.type}: GPUs print no floats wider than f64"
    return formats.refusal(op)


def promote_printf_arguments(op: ir.Operation) -> None:
    """Give the arguments of ``gpu.printf`` the widths that its format asks for, as C's variadic calls do.

    Integers grow to 32 or 64 bits with their sign, an ``i1`` is 0 or 1; of a wide one that is printed
    as ``%d`` the lower half counts, as with C on most processors. Floats become at least f32,
    which the conversions widen to f64. Upstream puts an i8 in the list as one byte, and NVIDIA's
    vprintf then reads three bytes of something else along with it.
    """
    emit = Emitter(op)
    wanted = formats.conversions(op.attributes["format"].value)
    for number, (conversion, value) in enumerate(zip(wanted, op.operands, strict=True)):
        if conversion.bits is not None:
            op.operands[number] = _integer(emit, value, conversion.bits)
        elif ir.FloatType(value.type).width < _WORD_BITS:
            op.operands[number] = emit.op("arith.extf", [value], [ir.F32Type.get()]).results[0]


def _integer(emit: Emitter, value: ir.Value, bits: int) -> ir.Value:
    kind = ir.IntegerType.get_signless(bits)
    if isinstance(value.type, ir.IndexType):
        if bits == _DOUBLE_BITS:
            return value
        return emit.op("arith.index_cast", [value], [kind]).results[0]
    given = ir.IntegerType(value.type).width
    if given == bits:
        return value
    name = "arith.trunci" if given > bits else "arith.extui" if given == 1 else "arith.extsi"
    return emit.op(name, [value], [kind]).results[0]
