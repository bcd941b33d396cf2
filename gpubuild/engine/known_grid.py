"""Known grids: what a kernel says of its grid, where a launch says otherwise.

LLVM believes ``known_grid_size``: with two workgroups said, it leaves out what the fourth does, on GPUs only.
The launch is what happens, so that the kernel's word is dropped then.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine import mlir
from gpubuild.engine.diagnostics import SourceText, locate
from gpubuild.errors import Diagnostic

_KNOWN = ("known_grid_size", "gpu.known_grid_size")
_SEGMENTS = "operandSegmentSizes"
_CONSTANTS = ("arith.constant", "llvm.mlir.constant")


def drop_contradicted(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Take it off kernels that some launch of constant size contradicts; a warning for each."""
    told: dict[str, tuple[ir.Operation, list[int]]] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func" and (sizes := _grid(op)):
            kernel = str(op.attributes["kernel"])
            if _contradicts(kernels.get(kernel), sizes):
                told.setdefault(kernel, (op, sizes))
        return ir.WalkResult.ADVANCE

    kernels = _kernels(module)
    if any(key in kernel.attributes for kernel in kernels.values() for key in _KNOWN):
        module.operation.walk(visit)
    found = []
    for name, (launch, sizes) in told.items():
        location, line = locate(launch.location, source)
        said = " and ".join(
            f"{key} is {_shape(_sizes(kernels[name], key))}"
            for key in _KNOWN
            if key in kernels[name].attributes
        )
        message = f"{name}: {said}, and this launch has {_shape(sizes)}: what the kernel says is left out"
        found.append(Diagnostic(message=message, severity="warning", location=location, source_line=line))
        for key in _KNOWN:
            if key in kernels[name].attributes:
                del kernels[name].attributes[key]
    return found


def _kernels(module: ir.Module) -> dict[str, ir.Operation]:
    """By what launches call them."""
    found = {}
    for kernels in mlir.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            if "sym_name" in function.operation.attributes:
                names = [op.attributes["sym_name"].value for op in (kernels, function.operation)]
                found[str(ir.SymbolRefAttr.get(names))] = function.operation
    return found


def _contradicts(kernel: ir.Operation | None, sizes: list[int]) -> bool:
    said = [_sizes(kernel, key) for key in _KNOWN if key in kernel.attributes] if kernel is not None else []
    return any(known and known != sizes for known in said)


def _sizes(kernel: ir.Operation, key: str) -> list[int]:
    value = kernel.attributes[key]
    return list(value) if isinstance(value, ir.DenseI32ArrayAttr) else []


def _shape(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def _grid(launch: ir.Operation) -> list[int]:
    """The grid of a launch, if it is constant and not empty."""
    first = next(iter(launch.attributes[_SEGMENTS]))  # tokens come before
    found = []
    for value in list(launch.operands)[first : first + 3]:
        if isinstance(value.owner, ir.Block) or value.owner.operation.name not in _CONSTANTS:
            return []
        found.append(int(ir.IntegerAttr(value.owner.operation.attributes["value"]).value))
    return found if 0 not in found else []
