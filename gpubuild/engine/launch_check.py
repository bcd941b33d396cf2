"""Launches whose workgroup no device takes, as far as the text tells."""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine import mlir
from gpubuild.engine.diagnostics import SourceText, about
from gpubuild.engine.reach.integers import number
from gpubuild.errors import Diagnostic, StepError

MAX_WORK_ITEMS = 1024  # of a workgroup: CUDA, HIP and the runtime's CPU device agree
_SEGMENTS = "operandSegmentSizes"
_BEFORE_SIZES = 4  # groups of operands before the workgroup's sizes: tokens, and the grid's
KNOWN_SIZES = ("known_block_size", "gpu.known_block_size")


def refuse_oversized(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches of constant size, and kernels of known size, that are too large.

    Also for launches of constant size that is not the known one of their kernel.
    """
    found: list[Diagnostic] = []

    known = _known_sizes(module)

    def note(op: ir.Operation, kernel: str, reason: str) -> None:
        told = about(op, f"{kernel}: {reason}", source)
        if told not in found:  # a launch in place is where the kernel made of it is
            found.append(told)

    def check(op: ir.Operation, kernel: str, sizes: list[int]) -> None:
        if len(sizes) == 3 and prod(sizes) > MAX_WORK_ITEMS:
            note(op, kernel, f"a workgroup of {_shape(sizes)} has more than {MAX_WORK_ITEMS} work-items")

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            kernel, sizes = str(op.attributes["kernel"]), _constant_sizes(op)
            check(op, kernel, sizes)
            wanted = known.get(kernel, sizes)
            if sizes and 0 not in sizes and wanted != sizes:
                note(op, kernel, f"known_block_size is {_shape(wanted)}, and this launch has {_shape(sizes)}")
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name != "gpu.module":
            top.operation.walk(visit)
    for kernels in mlir.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            name = _name(kernels, function.operation)
            if name in known:
                check(function.operation, name, known[name])
    if found:
        raise StepError(
            "the file has a launch that no device can do",
            diagnostics=found,
            hint="use smaller workgroups and more of them, of the size that a kernel says it is written for",
        )


def _known_sizes(module: ir.Module) -> dict[str, list[int]]:
    """The size of workgroups that kernels are written for, by what launches call them."""
    found = {}
    for kernels in mlir.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            for key in KNOWN_SIZES:
                size = function.operation.attributes.get(key)
                if isinstance(size, ir.DenseI32ArrayAttr):
                    found[_name(kernels, function.operation)] = list(size)
    return found


def _name(kernels: ir.Operation, function: ir.Operation) -> str:
    """``@module::@kernel``, written as MLIR writes it; empty for what is no function."""
    if "sym_name" not in function.attributes:
        return ""
    names = [kernels.attributes["sym_name"].value, function.attributes["sym_name"].value]
    return str(ir.SymbolRefAttr.get(names))


def _shape(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def _constant_sizes(launch: ir.Operation) -> list[int]:
    """The workgroup's sizes, if all are computed from constants."""
    segments = list(launch.attributes[_SEGMENTS])
    first = sum(segments[:_BEFORE_SIZES])
    sizes = [number(value) for value in list(launch.operands)[first : first + 3]]
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else []
