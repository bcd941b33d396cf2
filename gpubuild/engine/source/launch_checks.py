"""Launches that give a kernel less dynamic workgroup memory than it is seen to use.

No device notices: the kernel writes over what lies behind, on the CPU over memory of the program.

Launched: what a `gpu.launch_func` has as sizes and arguments, where that is computed from constants.

Known grids: what a kernel says of its grid, where a launch says otherwise.

LLVM believes ``known_grid_size``: with two workgroups said, it leaves out what the fourth does, on GPUs only.
The launch is what happens, so that the kernel's word is dropped then.

Launches whose workgroup no device takes, as far as the text tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, about, locate
from gpubuild.engine.ir.query import constant_integer, defining_op, scalar_bits
from gpubuild.engine.source.reach.integers import number
from gpubuild.errors import Diagnostic, StepError

_SEGMENTS = "operandSegmentSizes"
_GRID, _BLOCK, _ARGUMENTS = 1, 4, 11  # groups of operands; tokens come first


def grid(launch: ir.Operation) -> list[int | None]:
    """Workgroups in x, y and z; ``None`` where only a run tells."""
    return _numbers(launch, _GRID, 3)


def block(launch: ir.Operation) -> list[int | None]:
    """Work-items of a workgroup in x, y and z; ``None`` where only a run tells."""
    return _numbers(launch, _BLOCK, 3)


def arguments(launch: ir.Operation) -> list[int | None]:
    """What the kernel is given, where that is a number; ``None`` for all else."""
    return _numbers(launch, _ARGUMENTS, 1)


def kernel_name(kernels: ir.Operation, function: ir.Operation) -> str:
    """``@module::@kernel``, as launches write it; empty for what is no function."""
    if "sym_name" not in function.attributes:
        return ""
    names = [kernels.attributes["sym_name"].value, function.attributes["sym_name"].value]
    return str(ir.SymbolRefAttr.get(names))


def shape(extents: Sequence[int | None]) -> str:
    """Extents as messages have them: ``64 x 1 x 1``, with ``?`` for what is not known."""
    return " x ".join("?" if extent is None else str(extent) for extent in extents)


def _numbers(launch: ir.Operation, group: int, groups: int) -> list[int | None]:
    sizes = list(launch.attributes[_SEGMENTS])
    first = sum(sizes[:group])
    return [
        number(value) for value in list(launch.operands)[first : first + sum(sizes[group : group + groups])]
    ]


_KNOWN = ("known_grid_size", "gpu.known_grid_size")


def drop_contradicted(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Take it off kernels that a launch contradicts, as far as its grid is known; a warning for each."""
    kernels = _kernels_that_say(module)
    told: dict[str, ir.Operation] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            name = str(op.attributes["kernel"])
            if name in kernels and _contradicts(kernels[name], grid(op)):
                told.setdefault(name, op)
        return ir.WalkResult.ADVANCE

    if kernels:
        module.operation.walk(visit)
    return [_drop(kernels[name], name, launch, source) for name, launch in told.items()]


def _kernels_that_say(module: ir.Module) -> dict[str, ir.Operation]:
    """By what launches call them."""
    return {
        kernel_name(kernels, function.operation): function.operation
        for kernels in contexts.gpu_modules(module)
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
    says = " and ".join(f"{key} is {shape(extents)}" for key, extents in said)
    has = shape(grid(launch))
    message = f"{name}: {says}, and this launch has {has}: what the kernel says is left out"
    return Diagnostic(message=message, severity="warning", location=location, source_line=line)


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
                f"a workgroup of {shape(sizes)} has more than {MAX_WORK_ITEMS} work-items",
            )

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            kernel, sizes = str(op.attributes["kernel"]), _constant_sizes(op)
            check(op, kernel, sizes)
            wanted = known.get(kernel, sizes)
            if sizes and 0 not in sizes and wanted != sizes:
                has = shape(sizes)
                note(op, kernel, f"known_block_size is {shape(wanted)}, and this launch has {has}")
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name != "gpu.module":
            top.operation.walk(visit)
    for kernels in contexts.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            name = kernel_name(kernels, function.operation)
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
    for kernels in contexts.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            for key in KNOWN_SIZES:
                size = function.operation.attributes.get(key)
                if isinstance(size, ir.DenseI32ArrayAttr):
                    found[kernel_name(kernels, function.operation)] = list(size)
    return found


def _constant_sizes(launch: ir.Operation) -> list[int]:
    """The workgroup's sizes, if all are computed from constants."""
    sizes = block(launch)
    known = [size for size in sizes if size is not None]
    return known if len(known) == len(sizes) else []


_LAUNCH_SEGMENTS = "operandSegmentSizes"
_SIZE_PLACE = 10  # of the groups of operands: after tokens, and the sizes of grid, workgroup and cluster
_SOURCE = "gpu.dynamic_shared_memory"
_BYTE_BITS = 8


def refuse_missing(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches with too little of it, where all sizes are constants."""
    used = {
        (kernels.attributes["sym_name"].value, function.operation.attributes["sym_name"].value): bytes_used
        for kernels in contexts.gpu_modules(module)
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
            shift, kind = constant_integer(op.operands[1]), ir.MemRefType(op.results[0].type)
            bits = scalar_bits(kind.element_type)
            if shift is not None and bits:
                ends.append(shift + prod(kind.shape) * -(-bits // _BYTE_BITS))
    return max(ends)


def _bytes_given(launch: ir.Operation) -> int | None:
    segments = list(launch.attributes[_LAUNCH_SEGMENTS])
    if not segments[_SIZE_PLACE]:
        return 0
    return constant_integer(launch.operands[sum(segments[:_SIZE_PLACE])])


def _made_by(value: ir.Value, name: str) -> bool:
    op = defining_op(value)
    return op is not None and op.name == name
