"""Check launches whose sizes and arguments are constants, and signatures of kernels.

Errors: workgroups that are too large, too little dynamic workgroup memory (no device detects it, and
the kernel would overwrite other memory), kernels in the LLVM dialect that cannot be launched.
A ``known_grid_size`` that contradicts a launch is removed: LLVM relies on it and would delete code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.query import (
    BLOCK,
    DYNAMIC_SIZE,
    GRID,
    KERNEL_OPERANDS,
    constant_integer,
    defining_op,
    host_operations,
    kernel_functions,
    launch_operands,
    scalar_bits,
    symbol_name,
)
from gpubuild.errors import Diagnostic

MAX_WORK_ITEMS = 1024  # of a workgroup, in CUDA, HIP and the runtime's CPU device
KNOWN_SIZES = ("known_block_size", "gpu.known_block_size")
_KNOWN_GRIDS = ("known_grid_size", "gpu.known_grid_size")
_RETURNS_NOTHING = "!llvm.func<void ("
_DYNAMIC_MEMORY = "gpu.dynamic_shared_memory"
_LARGE_GRID = 1024  # workgroups
_DEPTH = 8  # most operations between a number and its constants
_CONSTANTS = frozenset({"arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant"})
_CASTS = frozenset(
    {
        *("arith.extui", "arith.extsi", "arith.trunci", "arith.index_cast", "arith.index_castui"),
        *("index.casts", "index.castu", "llvm.zext", "llvm.sext", "llvm.trunc"),
    }
)
# Operations that compute sizes, on numbers that are not negative.
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
    """Return the workgroups in x, y and z; ``None`` if unknown."""
    return [number(value) for value in _operands(launch, GRID, 3)]


def block(launch: ir.Operation) -> list[int | None]:
    """Return the work-items of a workgroup in x, y and z; ``None`` if unknown."""
    return [number(value) for value in _operands(launch, BLOCK, 3)]


def arguments(launch: ir.Operation) -> list[int | None]:
    """Return the arguments of the kernel that are known numbers; ``None`` for others."""
    return [number(value) for value in argument_values(launch)]


def kernel_name(kernels: ir.Operation, function: ir.Operation) -> str:
    """Return the name of a function in launches: ``@module::@kernel``."""
    return str(ir.SymbolRefAttr.get([symbol_name(kernels), symbol_name(function)]))


def shape(extents: Sequence[int | None]) -> str:
    """Return extents for messages: ``64 x 1 x 1``, with ``?`` for unknown ones."""
    return " x ".join("?" if extent is None else str(extent) for extent in extents)


def constant(value: ir.Value) -> int | None:
    """Return the unsigned value of a constant integer, else ``None``."""
    if isinstance(value.owner, ir.Block) or value.owner.name not in _CONSTANTS:
        return None
    width, attribute = scalar_bits(value.type), value.owner.attributes["value"]
    if not width or not isinstance(attribute, ir.IntegerAttr | ir.BoolAttr):
        return None
    return int(ir.IntegerAttr(attribute).value) & ((1 << width) - 1)


def number(value: ir.Value, *, depth: int = _DEPTH) -> int | None:
    """Return the unsigned value of an integer that is computed from constants, else ``None``."""
    if isinstance(value.owner, ir.Block) or depth == 0:
        return None
    if (known := constant(value)) is not None:
        return known
    op = value.owner.operation
    fold = (lambda a: a) if op.name in _CASTS else _FOLDS.get(op.name)
    width = scalar_bits(value.type)
    if fold is None or not width:
        return None
    numbers = []
    for operand in op.operands:
        found = number(operand, depth=depth - 1)
        if found is None or found >> (scalar_bits(operand.type) - 1):
            return None  # unknown or negative
        numbers.append(found)
    try:
        result = fold(*numbers)
    except ZeroDivisionError:
        return None
    return result if 0 <= result < 1 << (width - 1) else None


def argument_values(launch: ir.Operation) -> list[ir.Value]:
    """Return the arguments of the kernel."""
    return _operands(launch, KERNEL_OPERANDS, 1)


def _operands(launch: ir.Operation, group: int, groups: int) -> list[ir.Value]:
    return [launch.operands[number] for number in launch_operands(launch, group, groups)]


def launches(module: ir.Module) -> list[tuple[ir.Operation, str]]:
    """Return the launches of host code, each with the name of its kernel."""
    found = [op for op in host_operations(module) if op.name == "gpu.launch_func"]
    return [(op, str(op.attributes["kernel"])) for op in found]


def _functions(module: ir.Module) -> dict[str, ir.Operation]:
    """Return the functions of gpu.modules by their names in launches."""
    return {
        kernel_name(kernels, view.operation): view.operation
        for kernels in contexts.gpu_modules(module)
        for view in kernels.regions[0].blocks[0]
        if "sym_name" in view.operation.attributes
    }


def _written_sizes(function: ir.Operation, keys: Sequence[str]) -> dict[str, list[int]]:
    """Return the sizes in attributes of ``function``, by name."""
    attributes = {key: function.attributes.get(key) for key in keys}
    return {key: list(size) for key, size in attributes.items() if isinstance(size, ir.DenseI32ArrayAttr)}


def refuse_impossible(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for kernels without a body and for those that return a value.

    ptxas refuses them, the code generator for AMD GPUs aborts, CPUs would drop the value.
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
            found.append(about(op, f"kernel @{symbol_name(op)} {reason}", source))
    refuse(
        "the file has a kernel that cannot be launched",
        found,
        "give it a body, store its result through a pointer, or remove `gpu.kernel`",
    )


def drop_contradicted(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Remove known sizes of grids that contradict a launch; return a warning for each kernel."""
    warnings = []
    functions = _functions(module)
    for launch, name in launches(module):
        extents = grid(launch)
        written = _written_sizes(functions[name], _KNOWN_GRIDS) if name in functions else {}
        pairs = [pair for sizes in written.values() for pair in zip(extents, sizes, strict=False)]
        if 0 in extents or all(extent in (None, size) for extent, size in pairs):
            continue  # an empty grid runs nothing
        for key in written:
            del functions[name].attributes[key]
        has = " and ".join(f"{key} is {shape(sizes)}" for key, sizes in written.items())
        message = f"{name}: {has}, and this launch has {shape(extents)}: the kernel's attribute is ignored"
        warnings.append(about(launch, message, source, severity="warning"))
    return warnings


def find_single(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about large grids of workgroups that have one work-item each."""
    warnings = []
    for launch, name in launches(module):
        workgroups = prod(extent or 0 for extent in grid(launch))
        if block(launch) == [1, 1, 1] and workgroups >= _LARGE_GRID:
            message = (
                f"{name}: {workgroups} workgroups of one work-item: a GPU runs at least 32 work-items at a "
                "time, so that most of it does nothing (use workgroups of 64 to 256 work-items)"
            )
            warnings.append(about(launch, message, source, severity="warning"))
    return warnings


def refuse_oversized(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches and kernels with too large workgroups.

    Also for launches whose constant size is not the known one of their kernel.
    """
    found: dict[Diagnostic, None] = {}  # a kernel outlined from a launch has its location

    def check(op: ir.Operation, kernel: str, sizes: Sequence[int | None]) -> None:
        if len(sizes) == 3 and None not in sizes and prod(n or 0 for n in sizes) > MAX_WORK_ITEMS:
            message = f"{kernel}: a workgroup of {shape(sizes)} has more than {MAX_WORK_ITEMS} work-items"
            found[about(op, message, source)] = None

    functions = _functions(module)
    known: dict[str, Sequence[int | None]] = {
        name: sizes[-1]
        for name, function in functions.items()
        if (sizes := list(_written_sizes(function, KNOWN_SIZES).values()))
    }
    for launch, name in launches(module):
        extents = block(launch)
        check(launch, name, extents)
        wanted = known.get(name, extents)
        if None not in extents and 0 not in extents and wanted != extents:
            message = f"{name}: known_block_size is {shape(wanted)}, and this launch has {shape(extents)}"
            found[about(launch, message, source)] = None
    for name, written in known.items():
        check(functions[name], name, written)
    refuse(
        "the file has a launch that no device can do",
        list(found),
        "use more and smaller workgroups, of the size that the kernel declares",
    )


def refuse_missing_memory(module: ir.Module, source: SourceText) -> None:
    """Raise ``StepError`` for launches with too little dynamic workgroup memory, if sizes are constants."""
    functions = {name: op for name, op in _functions(module).items() if op.name == "gpu.func"}
    found: list[Diagnostic] = []
    for launch, name in launches(module):
        needed = _bytes_used(functions[name]) if name in functions else 0
        if not needed:
            continue
        size = launch_operands(launch, DYNAMIC_SIZE)
        given = constant_integer(launch.operands[size.start]) if size else 0
        if given is not None and given < needed:
            has = f"{given} bytes of" if given else "no"
            message = f"the launch gives {name} {has} dynamic workgroup memory; it uses {needed} bytes"
            found.append(about(launch, message, source))
    refuse(
        "the file has a launch with too little workgroup memory",
        found,
        "write `dynamic_shared_memory_size %bytes` (an i32) before the launch's arguments",
    )


def _bytes_used(kernel: ir.Operation) -> int:
    """Return the end of the last view of dynamic memory that all work-items create, as far as known."""
    ends = [0]
    for view in kernel.regions[0].blocks[0] if len(kernel.regions[0].blocks) else ():
        op = view.operation
        if op.name != "memref.view" or len(op.operands) != 2:
            continue
        maker, kind = defining_op(op.operands[0]), op.results[0].type
        shift, width = constant_integer(op.operands[1]), scalar_bits(kind.element_type)
        if maker is not None and maker.name == _DYNAMIC_MEMORY and shift is not None and width:
            ends.append(shift + prod(kind.shape) * -(-width // 8))
    return max(ends)
