"""Launches whose workgroup no device takes, as far as the text tells."""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine import mlir
from gpubuild.engine.diagnostics import SourceText, about
from gpubuild.errors import Diagnostic, StepError

MAX_WORK_ITEMS = 1024  # of a workgroup: CUDA, HIP and the runtime's CPU device agree
_SEGMENTS = "operandSegmentSizes"
_BEFORE_SIZES = 4  # groups of operands before the workgroup's sizes: tokens, and the grid's
_CONSTANTS = ("arith.constant", "llvm.mlir.constant")
_KNOWN = ("known_block_size", "gpu.known_block_size")


def refuse_oversized(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches of constant size, and kernels of known size, that are too large."""
    found: list[Diagnostic] = []

    def note(op: ir.Operation, sizes: list[int]) -> None:
        if len(sizes) == 3 and prod(sizes) > MAX_WORK_ITEMS:
            shape = " x ".join(map(str, sizes))
            told = about(op, f"a workgroup of {shape} has more than {MAX_WORK_ITEMS} work-items", source)
            if told not in found:  # a launch in place is where the kernel made of it is
                found.append(told)

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            note(op, _constant_sizes(op))
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name != "gpu.module":
            top.operation.walk(visit)
    for kernels in mlir.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            for name in _KNOWN:
                known = function.operation.attributes.get(name)
                if isinstance(known, ir.DenseI32ArrayAttr):
                    note(function.operation, list(known))
    if found:
        raise StepError(
            "the file has a launch that no device can do",
            diagnostics=found,
            hint="use smaller workgroups and more of them",
        )


def _constant_sizes(launch: ir.Operation) -> list[int]:
    """The workgroup's sizes, if all are constants."""
    segments = list(launch.attributes[_SEGMENTS])
    first = sum(segments[:_BEFORE_SIZES])
    found = []
    for value in list(launch.operands)[first : first + 3]:
        if isinstance(value.owner, ir.Block) or value.owner.operation.name not in _CONSTANTS:
            return []
        found.append(int(ir.IntegerAttr(value.owner.operation.attributes["value"]).value))
    return found
