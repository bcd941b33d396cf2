"""Messages: the arguments of what kernels print, on every kind of target."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.emit import Emitter

_WORD_BITS, _DOUBLE_BITS = 32, 64


def printf_refusal(op: ir.Operation) -> str:
    """Why ``gpu.printf`` cannot be compiled, or an empty string."""
    for value in op.operands:
        if isinstance(value.type, ir.IntegerType) and ir.IntegerType(value.type).width > _DOUBLE_BITS:
            return f"'{op.name}' of {value.type}: there is no format for integers wider than 64 bits"
        if str(value.type) in {"f80", "f128"}:
            return f"'{op.name}' of {value.type}: GPUs print no floats wider than f64"
    return ""


def promote_printf_arguments(op: ir.Operation) -> None:
    """Widen the arguments of ``gpu.printf`` as C's variadic calls do, which formats count on.

    Integers grow to 32 or 64 bits with their sign, an ``i1`` is 0 or 1, floats become at least f32,
    which the conversions widen to f64. Upstream puts an i8 in the list as one byte, and NVIDIA's
    vprintf then reads three bytes of something else along with it.
    """
    emit = Emitter(op)
    for number, value in enumerate(op.operands):
        kind = value.type
        if isinstance(kind, ir.IntegerType):
            width = ir.IntegerType(kind).width
            wanted = _WORD_BITS if width <= _WORD_BITS else _DOUBLE_BITS
            if width == wanted:
                continue
            name = "arith.extui" if width == 1 else "arith.extsi"
            wide: ir.Type = ir.IntegerType.get_signless(wanted)
        elif isinstance(kind, ir.FloatType) and ir.FloatType(kind).width < _WORD_BITS:
            name, wide = "arith.extf", ir.F32Type.get()
        else:
            continue
        op.operands[number] = emit.op(name, [value], [wide]).results[0]
