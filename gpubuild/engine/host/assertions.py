"""Report failed ``cf.assert`` of host code through the runtime, with the operation's location, on stderr.

Upstream's conversion calls ``puts`` and ``abort``: the text is lost where stdout is a file or a pipe.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host.call_locations import call, define_texts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering
from gpubuild.engine.ir.query import operations

_FUNCTION = "gpubuildAssertionFailed"  # runtime/core/message.c


def report(module: ir.Module, _: Lowering) -> None:
    """Replace assertions by branches to calls of the runtime."""
    symbols: dict[bytes, str] = {}  # by message
    for op in operations(module.operation, ("cf.assert",)):
        message = op.attributes["msg"].value_bytes
        symbol = symbols.setdefault(message, f"gpubuild.assertion.{len(symbols)}")
        emit = Emitter(op)
        failed = emit.binary("arith.xori", op.operands[0], emit.constant(1, op.operands[0].type))
        inside = emit.inside(emit.op("scf.if", [failed], [], regions=2).regions[0].blocks.append())
        call(inside, _FUNCTION, symbol)
        inside.op("scf.yield", [], [])
        op.erase()
    define_texts(module, _FUNCTION, symbols)
