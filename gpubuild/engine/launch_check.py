"""Launches whose workgroup no device takes, as far as the text tells."""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine import launched, mlir
from gpubuild.engine.diagnostics import SourceText, about
from gpubuild.errors import Diagnostic, StepError

MAX_WORK_ITEMS = 1024  # of a workgroup: CUDA, HIP and the runtime's CPU device agree
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
            note(
                op,
                kernel,
                f"a workgroup of {launched.shape(sizes)} has more than {MAX_WORK_ITEMS} work-items",
            )

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            kernel, sizes = str(op.attributes["kernel"]), _constant_sizes(op)
            check(op, kernel, sizes)
            wanted = known.get(kernel, sizes)
            if sizes and 0 not in sizes and wanted != sizes:
                has = launched.shape(sizes)
                note(op, kernel, f"known_block_size is {launched.shape(wanted)}, and this launch has {has}")
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name != "gpu.module":
            top.operation.walk(visit)
    for kernels in mlir.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            name = launched.kernel_name(kernels, function.operation)
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
                    found[launched.kernel_name(kernels, function.operation)] = list(size)
    return found


def _constant_sizes(launch: ir.Operation) -> list[int]:
    """The workgroup's sizes, if all are computed from constants."""
    sizes = launched.block(launch)
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else []
