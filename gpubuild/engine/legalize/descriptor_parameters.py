"""Descriptors as parameters of kernels: pointers, on both sides of a launch.

Upstream's conversion of functions does not know nvgpu's types; outlining makes parameters of them.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting

_OWN_TYPES = re.compile(r"!nvgpu\.tensormap\.descriptor\b")


def _take_pointers(function: ir.Operation, _: Lowering) -> None:
    """Give a kernel pointers in place of the nvgpu types among its parameters."""
    body = function.regions[0].blocks
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not len(body) or not any(_OWN_TYPES.match(str(t)) for t in kind.inputs):
        return
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(body[0].operations[0].operation)
    inputs = []
    for argument, given in zip(body[0].arguments, kind.inputs, strict=False):
        if not _OWN_TYPES.match(str(given)):
            inputs.append(given)
            continue
        seen = emit.op("builtin.unrealized_conversion_cast", [argument], [given])
        argument.replace_all_uses_except(seen.results[0], seen)
        argument.set_type(pointer)
        inputs.append(pointer)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))


def _pass_pointers(op: ir.Operation, _: Lowering) -> None:
    """Pass pointers in a ``gpu.launch_func``."""
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(op)
    for number, value in enumerate(op.operands):
        if _OWN_TYPES.match(str(value.type)):
            op.operands[number] = emit.cast(value, pointer)


TAKE_POINTERS = rewriting("descriptor-parameters-to-pointers", {"gpu.func": _take_pointers})
PASS_POINTERS = rewriting("descriptor-arguments-to-pointers", {"gpu.launch_func": _pass_pointers})
