"""Workgroup memory: variables of a workgroup become offsets from pointers that the work-item holds.

Workgroup atomics: atomic operations on workgroup memory that need not be atomic on CPUs.

One thread runs all work-items of a workgroup, in every tier, and those of a cluster too. It goes from
one work-item to another only where they wait, never inside an operation. So nobody else sees workgroup
memory, and a load, an operation and a store are as good as an atomic one, and much faster. What lies
in global memory stays atomic: other threads run other workgroups.

Allocations: private memory made in a loop, which would use up the stack of a work-item.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.lower.calls import functions, work_item
from gpubuild.engine.backends.cpu.state import (
    WORKGROUP_OF,
    CpuLowering,
    kernel_module,
    owner_of_context_array,
)
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.passes import Lowering
from gpubuild.engine.ir.query import operations, symbol_name
from gpubuild.errors import StepError

_WORKGROUP_SPACE = 3
_ATTRIBUTION = "__wg_{}"  # upstream's name for a function's workgroup attributions, before their number
_SCALAR_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "i32": 4,
    "i64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "ptr": 8,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variable:
    """A variable of the workgroup, ``offset_bytes`` behind one of the work-item's pointers."""

    offset_bytes: int
    base: int = image_layout.ITEM_SHARED  # which pointer: its byte offset in gb_cpu_item


def place_workgroup_memory(module: ir.Module, lowering: CpuLowering) -> None:
    """Replace addresses of workgroup variables, which go. All kernels of a module share one plan."""
    kernels = kernel_module(module)
    found = functions(kernels)
    workgroup_functions = {
        symbol_name(f): f.attributes[WORKGROUP_OF].value for f in found if WORKGROUP_OF in f.attributes
    }
    sizes: dict[str, int] = {}
    globals_ = [
        op.operation for op in kernels.regions[0].blocks[0] if op.operation.name == "llvm.mlir.global"
    ]
    for variable in globals_:
        if variable.attributes["addr_space"].value == _WORKGROUP_SPACE:
            sizes[symbol_name(variable)] = size_in_bytes(str(variable.attributes["global_type"].value))
    variables = _plan(sizes, workgroup_functions, lowering)
    defined = {symbol_name(function) for function in found}
    for function in found:
        for op in operations(function, {"llvm.mlir.addressof"}):
            name = ir.FlatSymbolRefAttr(op.attributes["global_name"]).value
            if name in defined:
                raise lowering.unsupported(op, f"taking the address of function @{name}")
            if (placed := variables.get(name)) is not None:
                build = LlvmBuilder(op)
                pointer = build.load(work_item(function), placed.base, "!llvm.ptr")
                start = build.offset(pointer, placed.offset_bytes)
                replace(op, build.value("llvm.addrspacecast", op.results[0].type, start))
    for variable in globals_:
        if symbol_name(variable) in variables:
            variable.erase()


def _plan(
    sizes: dict[str, int], workgroup_functions: dict[str, str], lowering: CpuLowering
) -> dict[str, _Variable]:
    """Give an offset to each variable, whose sizes are in ``sizes``."""
    placed: dict[str, _Variable] = {}
    lowering.context_bytes = dict.fromkeys(workgroup_functions.values(), 0)
    for name in list(sizes):
        kernel = workgroup_functions.get(owner_of_context_array(name))
        if kernel is not None:
            # Context arrays of different kernels may overlap: a thread runs one at a time.
            offset = lowering.context_bytes[kernel]
            placed[name] = _Variable(offset_bytes=offset, base=image_layout.ITEM_CONTEXTS)
            # Arrays that are a multiple of a page apart would fight for the same cache sets.
            end = offset + sizes.pop(name) + image_layout.SHARED_ALIGNMENT
            lowering.context_bytes[kernel] = _aligned(end)
    # A workgroup function shares the variables of its kernel.
    twins = {_ATTRIBUTION.format(f): _ATTRIBUTION.format(k) for f, k in workgroup_functions.items()}
    offset = 0
    for name, size in sizes.items():
        if size == 0:
            placed[name] = _Variable(offset_bytes=0, base=image_layout.ITEM_DYNAMIC)
        elif _twin(name, twins) not in sizes:
            offset = _aligned(offset)
            placed[name] = _Variable(offset_bytes=offset)
            offset += size
    for name in sizes.keys() - placed.keys():
        placed[name] = placed[_twin(name, twins)]
    lowering.workgroup_bytes = offset
    return placed


def _aligned(offset: int) -> int:
    alignment = image_layout.SHARED_ALIGNMENT
    return (offset + alignment - 1) // alignment * alignment


def _twin(name: str, twins: dict[str, str]) -> str:
    prefix, _, number = name.rpartition("_")
    return f"{twins[prefix]}_{number}" if prefix in twins else ""


def size_in_bytes(text: str) -> int:
    """Return the size of an LLVM-dialect type of arrays, vectors and scalars.

    Raises ``StepError`` for others.
    """
    text = text.removeprefix("!llvm.")
    if match := re.fullmatch(r"array<(\d+) ?x (.*)>", text):
        return int(match[1]) * size_in_bytes(match[2])
    if match := re.fullmatch(r"vec<(\d+) ?x (.*)>", text) or re.fullmatch(r"vector<(\d+)x(.*)>", text):
        # Vectors are aligned to the next power of two, and an array of them keeps each aligned.
        return 1 << (int(match[1]) * size_in_bytes(match[2]) - 1).bit_length()
    if match := re.fullmatch(r"struct<\((.*)\)>", text):
        members = [size_in_bytes(m) for m in match[1].split(", ")]
        largest = max(members, default=1)
        return largest * len(members)  # an upper bound that keeps any member aligned
    size = _SCALAR_BYTES.get(re.sub(r"^ptr<\d+>$", "ptr", text))
    if size is None and (match := re.fullmatch(r"i(\d+)", text)):
        size = 1 << ((int(match[1]) + 7) // 8 - 1).bit_length()
    if size is None:
        raise StepError(f"workgroup memory of type {text} is not supported on CPUs")
    return size


_WORKGROUP_POINTER = "!llvm.ptr<3>"
_RELAXED = "0 : i64"  # enum AtomicOrdering of the LLVM dialect: not atomic
# enum AtomicBinOp of the LLVM dialect → what computes the new value from the old one and the operand
_OPERATIONS = {
    1: "add",
    2: "sub",
    3: "and",
    5: "or",
    6: "xor",
    7: "intr.smax",
    8: "intr.smin",
    9: "intr.umax",
    10: "intr.umin",
    11: "fadd",
    12: "fsub",
    13: "intr.maxnum",
    14: "intr.minnum",
    19: "intr.maximum",
    20: "intr.minimum",
}
_EXCHANGE = 0


def relax_workgroup_atomics(module: ir.Operation) -> None:
    """Rewrite them inside ``module``, whose pointers must still have their address spaces."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in _REWRITES and str(op.operands[0].type) == _WORKGROUP_POINTER:
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    for op in found:
        _REWRITES[op.name](op)


def _read_modify_write(op: ir.Operation) -> None:
    pointer, operand = op.operands
    number = ir.IntegerAttr(op.attributes["bin_op"]).value
    if number != _EXCHANGE and number not in _OPERATIONS:
        return  # stays atomic
    build = LlvmBuilder(op)
    old = build.value("llvm.load", operand.type, pointer, ordering=_RELAXED)
    new = operand if number == _EXCHANGE else build.binary(_OPERATIONS[number], old, operand)
    build.op("llvm.store", [], [new, pointer], ordering=_RELAXED)
    replace(op, old)


def _compare_and_exchange(op: ir.Operation) -> None:
    pointer, expected, wanted = op.operands
    if not isinstance(expected.type, ir.IntegerType):
        return
    build = LlvmBuilder(op)
    old = build.value("llvm.load", expected.type, pointer, ordering=_RELAXED)
    same = build.value("llvm.icmp", "i1", old, expected, predicate="0 : i64")
    new = build.value("llvm.select", expected.type, same, wanted, old)
    build.op("llvm.store", [], [new, pointer], ordering=_RELAXED)
    result = build.value("llvm.mlir.undef", op.results[0].type)
    for position, value in enumerate((old, same)):
        result = build.value(
            "llvm.insertvalue", op.results[0].type, result, value, position=f"array<i64: {position}>"
        )
    replace(op, result)


_REWRITES = {"llvm.atomicrmw": _read_modify_write, "llvm.cmpxchg": _compare_and_exchange}


# Loops whose body is an allocation scope: memory made in an iteration ends with it, so that all
# iterations may use the same place.
_SCOPED_LOOPS = frozenset({"scf.for", "scf.forall", "scf.parallel", "affine.for", "affine.parallel"})
_ONCE = frozenset({"scf.if", "scf.index_switch", "scf.execute_region", "affine.if"})
_FUNCTIONS = frozenset({"gpu.func", "func.func"})


def hoist_allocations(module: ir.Module, _: Lowering) -> None:
    """Move each ``memref.alloca`` of constant size out of the loops it is in, to its function's entry."""
    found: list[tuple[ir.Operation, ir.Operation]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "memref.alloca" and not len(op.operands):
            function = _function_around(op)
            if function is not None:
                found.append((op, function))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for op, function in found:
        first = function.regions[0].blocks[0].operations[0].operation
        if first != op:
            op.move_before(first)


def _function_around(op: ir.Operation) -> ir.Operation | None:
    """Return the function ``op`` may move to the entry of: everything between them is scoped or runs once."""
    parent = op.parent
    while parent is not None:
        name = parent.operation.name
        if name in _FUNCTIONS:
            # In a function with branches of its own only structured code tells where a loop is.
            blocks = parent.operation.regions[0].blocks
            return parent.operation if len(blocks) == 1 or op.parent.operation != parent.operation else None
        if name not in _SCOPED_LOOPS and name not in _ONCE:
            return None
        parent = parent.operation.parent
    return None
