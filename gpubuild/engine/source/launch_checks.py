"""Checks of launches whose sizes and arguments are constants, and of kernels' signatures.

Reported: workgroups that no device takes, too little dynamic workgroup memory (no device notices;
the kernel would overwrite what lies behind), kernels in the LLVM dialect that cannot be launched.
A ``known_grid_size`` that a launch contradicts is dropped: LLVM believes it and would leave code out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, about, locate
from gpubuild.engine.ir.query import constant_integer, defining_op, kernel_functions, scalar_bits
from gpubuild.errors import Diagnostic, StepError

_RETURNS_NOTHING = "!llvm.func<void ("


def refuse_impossible(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for kernels without a body and for those that return a value.

    ptxas refuses them, the code generator for AMD GPUs ends the process, CPUs would drop the value.
    """
    found: list[Diagnostic] = []
    for kernels in contexts.gpu_modules(module):
        for op in kernel_functions(kernels):
            kind = str(op.attributes["function_type"])
            if not len(op.regions[0].blocks):
                reason = "has no body"
            elif op.name == "llvm.func" and not kind.startswith(_RETURNS_NOTHING):
                reason = "returns a value, and no launch could take it"
            else:
                continue
            found.append(about(op, f"kernel @{op.attributes['sym_name'].value} {reason}", source))
    if found:
        raise StepError(
            "the file has a kernel that cannot be launched",
            diagnostics=found,
            hint="give it a body, store its result through a pointer, or take the mark `gpu.kernel` off",
        )


_SEGMENTS = "operandSegmentSizes"
_GRID, _BLOCK, _ARGUMENTS = 1, 4, 11  # groups of operands; tokens come first
_INDEX_BITS = 64
_DEPTH = 8  # of operations between a number and its constants
_CONSTANTS = frozenset({"arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant"})
_CASTS = frozenset(
    {
        *("arith.extui", "arith.extsi", "arith.trunci", "arith.index_cast", "arith.index_castui"),
        *("index.casts", "index.castu", "llvm.zext", "llvm.sext", "llvm.trunc"),
    }
)
# What host code computes sizes with, on numbers that are not negative, with or without a sign.
_FOLDS: dict[str, Callable[[int, int], int]] = {
    **dict.fromkeys(("arith.addi", "index.add", "llvm.add"), lambda a, b: a + b),
    **dict.fromkeys(("arith.subi", "index.sub", "llvm.sub"), lambda a, b: a - b),
    **dict.fromkeys(("arith.muli", "index.mul", "llvm.mul"), lambda a, b: a * b),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.floordivsi"), lambda a, b: a // b),
    **dict.fromkeys(("index.divs", "index.divu", "index.floordivs"), lambda a, b: a // b),
    **dict.fromkeys(("llvm.sdiv", "llvm.udiv"), lambda a, b: a // b),
    **dict.fromkeys(("arith.ceildivsi", "arith.ceildivui"), lambda a, b: -(-a // b)),
    **dict.fromkeys(("index.ceildivs", "index.ceildivu"), lambda a, b: -(-a // b)),
    **dict.fromkeys(("arith.remsi", "arith.remui", "index.rems", "index.remu"), lambda a, b: a % b),
    **dict.fromkeys(("llvm.srem", "llvm.urem"), lambda a, b: a % b),
    **dict.fromkeys(("arith.shli", "index.shl", "llvm.shl"), lambda a, b: a << b if b < 64 else -1),
    **dict.fromkeys(("arith.shrsi", "arith.shrui", "index.shrs", "index.shru"), lambda a, b: a >> b),
    **dict.fromkeys(("llvm.ashr", "llvm.lshr"), lambda a, b: a >> b),
    **dict.fromkeys(("arith.minsi", "arith.minui", "index.mins", "index.minu"), min),
    **dict.fromkeys(("arith.maxsi", "arith.maxui", "index.maxs", "index.maxu"), max),
}


def grid(launch: ir.Operation) -> list[int | None]:
    """Return the workgroups in x, y and z; ``None`` where only a run decides."""
    return _numbers(launch, _GRID, 3)


def block(launch: ir.Operation) -> list[int | None]:
    """Return the work-items of a workgroup in x, y and z; ``None`` where only a run decides."""
    return _numbers(launch, _BLOCK, 3)


def arguments(launch: ir.Operation) -> list[int | None]:
    """Return the kernel's arguments that are known numbers; ``None`` for all others."""
    return _numbers(launch, _ARGUMENTS, 1)


def kernel_name(kernels: ir.Operation, function: ir.Operation) -> str:
    """Return ``@module::@kernel``, as launches write it; empty for what is no function."""
    if "sym_name" not in function.attributes:
        return ""
    names = [kernels.attributes["sym_name"].value, function.attributes["sym_name"].value]
    return str(ir.SymbolRefAttr.get(names))


def shape(extents: Sequence[int | None]) -> str:
    """Return extents as messages have them: ``64 x 1 x 1``, with ``?`` for what is not known."""
    return " x ".join("?" if extent is None else str(extent) for extent in extents)


def bits(kind: ir.Type) -> int:
    """Return how many bits a value of ``kind`` has; 0 for what is no integer."""
    if isinstance(kind, ir.IndexType):
        return _INDEX_BITS
    return int(ir.IntegerType(kind).width) if isinstance(kind, ir.IntegerType) else 0


def constant(value: ir.Value) -> int | None:
    """Return the integer, without sign, that ``value`` is by a constant."""
    if isinstance(value.owner, ir.Block) or value.owner.name not in _CONSTANTS:
        return None
    width, attribute = bits(value.type), value.owner.attributes["value"]
    if not width or not isinstance(attribute, ir.IntegerAttr | ir.BoolAttr):
        return None
    return int(ir.IntegerAttr(attribute).value) & ((1 << width) - 1)


def number(value: ir.Value, *, depth: int = _DEPTH) -> int | None:
    """Return the integer, without sign, that ``value`` is if it is computed from constants alone."""
    if isinstance(value.owner, ir.Block) or depth == 0:
        return None
    if (known := constant(value)) is not None:
        return known
    op = value.owner.operation
    fold = (lambda a: a) if op.name in _CASTS else _FOLDS.get(op.name)
    width = bits(value.type)
    if fold is None or not width:
        return None
    numbers = []
    for operand in op.operands:
        found = number(operand, depth=depth - 1)
        if found is None or found >> (bits(operand.type) - 1):
            return None  # unknown or negative
        numbers.append(found)
    try:
        result = fold(*numbers)
    except ZeroDivisionError:
        return None
    return result if 0 <= result < 1 << (width - 1) else None


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
    segments = list(launch.attributes[_SEGMENTS])
    if not segments[_SIZE_PLACE]:
        return 0
    return constant_integer(launch.operands[sum(segments[:_SIZE_PLACE])])


def _made_by(value: ir.Value, name: str) -> bool:
    op = defining_op(value)
    return op is not None and op.name == name
