"""Launches that give a kernel less dynamic workgroup memory than it is seen to use.

No device notices: the kernel writes over what lies behind, on the CPU over memory of the program.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine import mlir
from gpubuild.engine.diagnostics import SourceText, about
from gpubuild.errors import Diagnostic, StepError

_SEGMENTS = "operandSegmentSizes"
_SIZE_PLACE = 10  # of the groups of operands: after tokens, and the sizes of grid, workgroup and cluster
_CONSTANT = "arith.constant"
_SOURCE = "gpu.dynamic_shared_memory"
_BYTE_BITS, _INDEX_BITS = 8, 64


def refuse_missing(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches with too little of it, where all sizes are constants."""
    used = {
        (kernels.attributes["sym_name"].value, function.operation.attributes["sym_name"].value): bytes_used
        for kernels in mlir.gpu_modules(module)
        for function in kernels.regions[0].blocks[0]
        if function.operation.name == "gpu.func" and (bytes_used := _bytes_used(function.operation))
    }
    found: list[Diagnostic] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            names = tuple(ir.SymbolRefAttr(op.attributes["kernel"]).value)
            given, needed = _bytes_given(op), used.get(names, 0)
            if given is not None and given < needed:
                kernel = "::".join(f"@{name}" for name in names)
                has = f"{given} bytes of" if given else "no"
                message = f"the launch gives {kernel} {has} dynamic workgroup memory; it uses {needed} bytes"
                found.append(about(op, message, source))
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if used and top.operation.name != "gpu.module":
            top.operation.walk(visit)
    if found:
        raise StepError(
            "the file has a launch with too little workgroup memory",
            diagnostics=found,
            hint="say `dynamic_shared_memory_size %bytes` (an i32) before the launch's arguments",
        )


def _bytes_used(kernel: ir.Operation) -> int:
    """Where the last view of dynamic memory ends that all work-items make, as far as it is known."""
    if not len(kernel.regions[0].blocks):
        return 0
    ends = [0]
    for view in kernel.regions[0].blocks[0]:
        op = view.operation
        if op.name == "memref.view" and len(op.operands) == 2 and _made_by(op.operands[0], _SOURCE):
            shift, kind = _constant(op.operands[1]), ir.MemRefType(op.results[0].type)
            bits = _bits(kind.element_type)
            if shift is not None and bits:
                ends.append(shift + prod(kind.shape) * -(-bits // _BYTE_BITS))
    return max(ends)


def _bytes_given(launch: ir.Operation) -> int | None:
    segments = list(launch.attributes[_SEGMENTS])
    if not segments[_SIZE_PLACE]:
        return 0
    return _constant(launch.operands[sum(segments[:_SIZE_PLACE])])


def _bits(element: ir.Type) -> int:
    if isinstance(element, ir.IndexType):
        return _INDEX_BITS
    if isinstance(element, ir.IntegerType):
        return int(ir.IntegerType(element).width)
    return int(ir.FloatType(element).width) if isinstance(element, ir.FloatType) else 0


def _made_by(value: ir.Value, name: str) -> bool:
    return not isinstance(value.owner, ir.Block) and bool(value.owner.operation.name == name)


def _constant(value: ir.Value) -> int | None:
    if not _made_by(value, _CONSTANT):
        return None
    return int(ir.IntegerAttr(value.owner.operation.attributes["value"]).value)
