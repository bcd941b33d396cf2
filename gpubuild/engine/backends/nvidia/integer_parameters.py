"""Integer parameters of NVIDIA kernels: of the widths that PTX has types for."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting

_PARAMETER_BITS = (8, 16, 32, 64)  # integers that PTX has types for, or that LLVM passes as one of them


def _widen(function: ir.Operation, _: Lowering) -> None:
    """Give a kernel whole bytes, words or double words in place of integers that PTX has no types for.

    The host passes the address of such an integer in as much room; the bits beyond it are not looked at.
    """
    if "gpu.kernel" not in function.attributes and "kernel" not in function.attributes:
        return
    body = function.regions[0].blocks
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    wider = [_wider(given) for given in kind.inputs]
    if not len(body) or all(w is None for w in wider):
        return
    emit = Emitter(body[0].operations[0].operation)
    for argument, given, wide in zip(body[0].arguments, kind.inputs, wider, strict=False):
        if wide is not None:
            seen = emit.op("arith.trunci", [argument], [given])
            argument.replace_all_uses_except(seen.results[0], seen)
            argument.set_type(wide)
    inputs = [wide or given for given, wide in zip(kind.inputs, wider, strict=True)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))


def _wider(kind: ir.Type) -> ir.Type | None:
    if not isinstance(kind, ir.IntegerType):
        return None
    width = ir.IntegerType(kind).width
    if width in {1, *_PARAMETER_BITS} or width > _PARAMETER_BITS[-1]:
        return None
    return ir.IntegerType.get_signless(next(bits for bits in _PARAMETER_BITS if bits >= width))


WIDEN = rewriting("widen-integer-parameters", {"gpu.func": _widen})
