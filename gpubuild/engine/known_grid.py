"""Known grids: what a kernel says of its grid, where a launch says otherwise.

LLVM believes ``known_grid_size``: with two workgroups said, it leaves out what the fourth does, on GPUs only.
The launch is what happens, so that the kernel's word is dropped then.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine import launched, mlir
from gpubuild.engine.diagnostics import SourceText, locate
from gpubuild.errors import Diagnostic

_KNOWN = ("known_grid_size", "gpu.known_grid_size")


def drop_contradicted(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Take it off kernels that a launch contradicts, as far as its grid is known; a warning for each."""
    kernels = _kernels_that_say(module)
    told: dict[str, ir.Operation] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            name = str(op.attributes["kernel"])
            if name in kernels and _contradicts(kernels[name], launched.grid(op)):
                told.setdefault(name, op)
        return ir.WalkResult.ADVANCE

    if kernels:
        module.operation.walk(visit)
    return [_drop(kernels[name], name, launch, source) for name, launch in told.items()]


def _kernels_that_say(module: ir.Module) -> dict[str, ir.Operation]:
    """By what launches call them."""
    return {
        launched.kernel_name(kernels, function.operation): function.operation
        for kernels in mlir.gpu_modules(module)
        for function in kernels.regions[0].blocks[0]
        if any(_said(function.operation, key) for key in _KNOWN)
    }


def _said(kernel: ir.Operation, key: str) -> list[int]:
    value = kernel.attributes.get(key)
    return list(value) if isinstance(value, ir.DenseI32ArrayAttr) else []


def _contradicts(kernel: ir.Operation, grid: list[int | None]) -> bool:
    if 0 in grid:
        return False  # nothing runs
    said = [words for key in _KNOWN if (words := _said(kernel, key))]
    return any(
        extent not in (None, word) for words in said for extent, word in zip(grid, words, strict=False)
    )


def _drop(kernel: ir.Operation, name: str, launch: ir.Operation, source: SourceText) -> Diagnostic:
    said = [(key, words) for key in _KNOWN if (words := _said(kernel, key))]
    for key, _ in said:
        del kernel.attributes[key]
    location, line = locate(launch.location, source)
    says = " and ".join(f"{key} is {launched.shape(extents)}" for key, extents in said)
    has = launched.shape(launched.grid(launch))
    message = f"{name}: {says}, and this launch has {has}: what the kernel says is left out"
    return Diagnostic(message=message, severity="warning", location=location, source_line=line)
