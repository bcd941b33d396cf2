"""Report failed ``cf.assert`` of host code through the runtime, with the operation's location, on stderr.

Upstream's conversion calls ``puts`` and ``abort``: the text is lost where stdout is a file or a pipe.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering
from gpubuild.engine.ir.query import operations

_FUNCTION = "gpubuildAssertionFailed"  # runtime/core/message.c


def report(module: ir.Module, _: Lowering) -> None:
    """Replace assertions by branches to calls of the runtime."""
    symbols: dict[bytes, str] = {}  # by message
    for op in operations(module.operation, ("cf.assert",)):
        message = ir.StringAttr(op.attributes["msg"]).value_bytes
        symbol = symbols.setdefault(message, f"gpubuild.assertion.{len(symbols)}")
        emit = Emitter(op)
        failed = emit.binary("arith.xori", op.operands[0], emit.constant(1, op.operands[0].type))
        inside = emit.inside(emit.op("scf.if", [failed], [], regions=2).regions[0].blocks.append())
        name = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
        text = inside.value("llvm.mlir.addressof", [], ir.Type.parse("!llvm.ptr"), name)
        inside.call(_FUNCTION, [text])
        inside.op("scf.yield", [], [])
        op.erase()
    if symbols:
        lines = [f"llvm.func @{_FUNCTION}(!llvm.ptr)"]
        for message, symbol in symbols.items():
            quoted = "".join(f"\\{byte:02X}" for byte in message + bytes(1))
            lines.append(f'llvm.mlir.global internal constant @{symbol}("{quoted}") {{addr_space = 0 : i32}}')
        made = ir.Module.parse("\n".join(lines))  # a variable: its operations die with it
        for view in made.body:
            module.body.append(view.operation.clone())
