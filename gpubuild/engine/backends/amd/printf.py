"""Messages of AMD kernels: ``gpu.printf`` and ``cf.assert`` through the buffer that HIP prints.

A message is one frame in that buffer: a control word (its size and stream), the name of its format, and
eight bytes for each value. Formats are metadata of the code object, where HIP looks up a name. ``printf.ll``
has the functions that kernels call. Sources of these facts: docs/design/amd.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import kernel_module, symbol_name
from gpubuild.engine.legalize.printf import failed_assertion
from gpubuild.support.text import escaped

LIBRARY = "printf.ll"
_FORMATS = "gpubuild.formats"  # on the gpu.module: the formats of its kernels' messages
_RESERVE = "gpubuild_message"
_STORE = "gpubuild_message_value"
_ASSERTION_FAILED = "gpubuild_assertion_failed"
_RECORD = "gpubuild_assertion_record"
_SIGNATURES = {
    _RESERVE: "ptr<1> (i32, i64)",
    _STORE: "void (ptr<1>, i32, i64)",
    _ASSERTION_FAILED: "void (i64)",
}
_HEADER_BYTES, _VALUE_BYTES = 12, 8
_NAMED_FORMAT = 2  # bit of the control word
_WORD_BITS = 32
# HIP reads these as C's escapes.
_BACKSLASH = re.compile(r"\\(?=[abfnrv7])")
_CONVERSION = re.compile(r"%(?:%|[^%diouxXfFeEgGaAcspn]*[diouxXfFeEgGaAcspn])|\\(?=[abfnrv7])", re.DOTALL)


def _expand_printf(op: ir.Operation, _: Lowering) -> None:
    """Expand ``gpu.printf`` with arguments of C's widths: reserve a message, then store each value."""
    emit = Emitter(op)
    values = [_as_i64(emit, value) for value in op.operands]
    text, values = _without_escapes(op.attributes["format"].value, values, emit)
    if text:
        # Without a value HIP 5.7 to 7 may write seven bytes after the text: one more value makes room.
        stored = values or [emit.constant(0, _i64())]
        control = (_HEADER_BYTES + _VALUE_BYTES * len(stored)) << 2 | _NAMED_FORMAT
        word = ir.IntegerType.get_signless(_WORD_BITS)
        arguments = [emit.constant(control, word), emit.constant(_name(op, text), _i64())]
        (message,) = _call(op, emit, _RESERVE, arguments, [ir.Type.parse("!llvm.ptr<1>")])
        for number, value in enumerate(stored):
            _call(op, emit, _STORE, [message, emit.constant(number, word), value])
    op.erase()


def _expand_assert(op: ir.Operation, _: Lowering) -> None:
    """Expand ``cf.assert``: where it does not hold, write a message to stderr, then trap."""
    inside, text = failed_assertion(op)
    # The library stores six values, so a backslash that HIP would misread cannot become a seventh.
    text = _BACKSLASH.sub("/", text)
    text = f"{text}, in workgroup (%u, %u, %u), work-item (%u, %u, %u)\n"
    _call(op, inside, _ASSERTION_FAILED, [inside.constant(_name(op, text), _i64())])
    inside.op("llvm.intr.trap", [], [])
    inside.op("scf.yield", [], [])
    op.erase()


def assertion_record(undefined: Sequence[str]) -> str:
    """Return LLVM IR of the variable by which the runtime finds failed assertions; empty without any."""
    if _ASSERTION_FAILED not in undefined:
        return ""
    return f"@{_RECORD} = addrspace(1) externally_initialized global ptr addrspace(1) null, align 8\n"


def take_formats(module: ir.Operation) -> tuple[str, ...]:
    """Remove the formats of messages, ``<name>,<text>``, from ``module`` and return them."""
    if _FORMATS not in module.attributes:
        return ()
    formats = tuple(text.value for text in module.attributes[_FORMATS])
    del module.attributes[_FORMATS]
    return formats


def metadata(formats: Sequence[str]) -> str:
    """Return LLVM IR whose metadata becomes ``amdhsa.printf`` of a code object; each format once."""
    references = ", ".join(f"!{number}" for number in range(len(formats)))
    entries = "".join(
        f'!{number} = !{{!"0:0:{escaped(text.encode())}"}}\n' for number, text in enumerate(formats)
    )
    return f"!llvm.printf.fmts = !{{{references}}}\n{entries}"


def format_name(module: str, text: str) -> int:
    """Return the 64-bit name of a format in messages, which differs between modules."""
    return int.from_bytes(hashlib.sha256(f"{module}\0{text}".encode()).digest()[:8], "little")


def _without_escapes(text: str, values: list[ir.Value], emit: Emitter) -> tuple[str, list[ir.Value]]:
    r"""Return a format without escapes that HIP reads: the backslash of ``\n`` becomes a value."""
    taken = 0
    kept: list[ir.Value] = []

    def replace(found: re.Match[str]) -> str:
        nonlocal taken
        conversion = found[0]
        if conversion == "\\":
            kept.append(emit.constant(ord("\\"), _i64()))
            return "%c"
        if conversion != "%%":
            used = 1 + conversion.count("*")
            kept.extend(values[taken : taken + used])
            taken += used
        return conversion

    if not _BACKSLASH.search(text):
        return text, values
    return _CONVERSION.sub(replace, text), kept + values[taken:]


def _as_i64(emit: Emitter, value: ir.Value) -> ir.Value:
    kind, i64 = value.type, _i64()
    if kind == i64:
        return value
    if isinstance(kind, ir.IndexType):
        return emit.value("arith.index_cast", [value], i64)
    if isinstance(kind, ir.FloatType):
        double = ir.F64Type.get()
        if kind != double:
            value = emit.value("arith.extf", [value], double)
        return emit.value("arith.bitcast", [value], i64)
    return emit.value("arith.extsi", [value], i64)


def _name(op: ir.Operation, text: str) -> int:
    """Add a format to the gpu.module around ``op`` and return its name."""
    module = kernel_module(op)
    formats = list(module.attributes[_FORMATS]) if _FORMATS in module.attributes else []
    name = format_name(module.attributes["sym_name"].value, text)
    new = ir.StringAttr.get(f"{name:016x},{text}")
    if new not in formats:
        module.attributes[_FORMATS] = ir.ArrayAttr.get([*formats, new])
    return name - (1 << 64) if name >> 63 else name


def _call(
    op: ir.Operation, emit: Emitter, name: str, arguments: list[ir.Value], results: Sequence[ir.Type] = ()
) -> list[ir.Value]:
    body = kernel_module(op).regions[0].blocks[0]
    if not any(symbol_name(o.operation) == name for o in body):
        ir.Operation.create(
            "llvm.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "function_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<{_SIGNATURES[name]}>")),
            },
            loc=op.location,
            ip=ir.InsertionPoint.at_block_begin(body),
        )
    return list(emit.call(name, arguments, results).results)


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)


EXPAND = rewriting("messages-to-hip-buffer", {"gpu.printf": _expand_printf, "cf.assert": _expand_assert})
