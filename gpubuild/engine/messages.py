"""Messages: what kernels print, and how they stop when an assertion does not hold."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.diagnostics import UNNAMED_BUFFER, file_position
from gpubuild.engine.emit import Emitter

ASSERTION_FAILED = "gpubuild_assertion_failed"  # in assert_message.ll and assert_silent.ll
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


def expand_assert(op: ir.Operation) -> None:
    """``cf.assert`` on AMD: where it does not hold, a call that may print, then a trap."""
    emit = Emitter(op)
    i1 = ir.IntegerType.get_signless(1)
    true = emit.op("arith.constant", [], [i1], {"value": ir.IntegerAttr.get(i1, 1)}).results[0]
    failed = emit.binary("arith.xori", op.operands[0], true)
    branch = emit.op("scf.if", [failed], [], regions=2)
    inside = emit.inside(branch.regions[0].blocks.append())
    found = file_position(op.location)
    where = ":".join(map(str, found)) + ": " if found and found[0] != UNNAMED_BUFFER else ""
    format_ = _escape(f"{where}{_function_name(op)}: assertion failed: {op.attributes['msg'].value}")
    text = f"{format_}, in workgroup (%u, %u, %u), work-item (%u, %u, %u)\n"
    pointer, length = _string(op, inside, text)
    inside.op("llvm.call", [pointer, length], [], _call_attributes(ASSERTION_FAILED))
    inside.op("llvm.intr.trap", [], [])
    inside.op("scf.yield", [], [])
    op.erase()


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _function_name(op: ir.Operation) -> str:
    """``module: function`` of what ``op`` lies in."""
    names: list[str] = []
    parent = op.parent
    while parent is not None:
        if "sym_name" in parent.attributes:
            names.insert(0, parent.attributes["sym_name"].value)
        parent = parent.operation.parent
    return ": ".join(names)


def _string(op: ir.Operation, emit: Emitter, text: str) -> tuple[ir.Value, ir.Value]:
    """Address and size in bytes, its NUL among them, of a constant in the gpu.module around ``op``."""
    body = _module_body(op)
    data = text.encode() + b"\0"
    names = {o.operation.attributes["sym_name"].value for o in body if "sym_name" in o.operation.attributes}
    name = next(n for number in range(len(names) + 1) if (n := f"assertion_{number}") not in names)
    i64 = ir.IntegerType.get_signless(64)
    start = ir.InsertionPoint.at_block_begin(body)
    ir.Operation.create(
        "llvm.mlir.global",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "global_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{len(data)} x i8>")),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
            "constant": ir.UnitAttr.get(),
            "value": ir.StringAttr.get(data),
            "addr_space": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 0),
        },
        loc=op.location,
        ip=start,
    )
    if ASSERTION_FAILED not in names:
        function = ir.Type.parse("!llvm.func<void (ptr, i64)>")
        ir.Operation.create(
            "llvm.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(ASSERTION_FAILED),
                "function_type": ir.TypeAttr.get(function),
            },
            loc=op.location,
            ip=start,
        )
    symbol = {"global_name": ir.FlatSymbolRefAttr.get(name)}
    pointer = emit.op("llvm.mlir.addressof", [], [ir.Type.parse("!llvm.ptr")], symbol).results[0]
    return pointer, emit.constant(len(data), i64)


def _call_attributes(name: str) -> dict[str, ir.Attribute]:
    return {
        "callee": ir.FlatSymbolRefAttr.get(name),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 0]),
    }


def _module_body(op: ir.Operation) -> ir.Block:
    parent = op
    while parent.name != "gpu.module":
        parent = parent.parent.operation
    return parent.regions[0].blocks[0]
