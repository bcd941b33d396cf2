"""Which memrefs may share elements, and which may be written."""

from __future__ import annotations

import re
from typing import NamedTuple

from mlir import ir

from gpubuild.engine.ir.query import (
    KERNEL_OPERANDS,
    VIEWS,
    callee,
    defining_op,
    enclosing,
    launch_operands,
    symbol_name,
    terminator,
    viewed_memory,
)

CONSTANT_COPY = "gpubuildConstant"  # of the runtime, abi/constants.c
CHOICES = ("arith.select", "scf.if", "scf.index_switch")
_ALLOCATIONS = frozenset({"memref.alloc", "memref.alloca", "gpu.alloc"})
_TO_ADDRESS = ("llvm.inttoptr", "arith.index_cast")
# Operations that only read the memory of these operands.
_READS = {
    "memref.load": 0, "memref.dim": 0, "memref.rank": 0, "memref.copy": 0, "affine.load": 0, "vector.load": 0,
    "vector.transfer_read": 0, "vector.maskedload": 0, "gpu.host_register": 0, "gpu.host_unregister": 0,
    "vector.gather": 0, "memref.prefetch": 0, "gpu.memcpy": -1,
}  # fmt: skip
# Functions of the runtime that only read. One of a user may have a name that begins like these.
PRINTS = re.compile(r"printMemref(Shape|\dd)?((I|F|BF|C)\d+|Ind|Vector4x4xf32)")


class Origin(NamedTuple):
    """Memory that is no view: an allocation, an argument of the function, or a variable by ``name``."""

    memory: ir.Value
    name: str
    own: bool  # shares elements with no other origin


Origins = list[Origin] | None  # those of which a memref is one; None: any memory


def may_alias(left: ir.Value, right: ir.Value) -> bool:
    """Return whether two memrefs may share elements."""
    return may_share(origins(left), origins(right))


def may_share(some: Origins, others: Origins) -> bool:
    """Return whether memrefs of such origins may share elements."""
    if some is None or others is None:
        return True
    return any(_are_one(one, other) for one in some for other in others)


def _are_one(one: Origin, other: Origin) -> bool:
    if one.name and other.name:
        return one.name == other.name
    return bool(one.memory == other.memory) or not (one.own or other.own)


def origins(value: ir.Value) -> Origins:
    """Return what ``value`` may be.

    Allocations and constants are memory of their own. So are the arguments of functions that return
    results, see ``bufferize.result``. A choice is one of its arms.
    """
    value = viewed_memory(value)
    op = defining_op(value)
    if op is None:
        function = value.owner.owner.operation
        is_argument = function.name == "func.func" and value.owner == function.regions[0].blocks[0]
        return [Origin(value, "", is_result(value))] if is_argument else None
    if op.name in _ALLOCATIONS or _is_constant_copy(op):
        return [Origin(value, "", True)]
    if (found := variable(value)) is not None:
        return [Origin(value, symbol_name(found), "constant" in found.attributes)]
    if op.name not in CHOICES:
        return None
    chosen = [origins(end.operands[number]) for end, number in arms(op, ir.OpResult(value).result_number)]
    return None if None in chosen else [one for arm in chosen for one in arm or ()]


def arms(choice: ir.Operation, result: int) -> list[tuple[ir.Operation, int]]:
    """Return the operands that a result of one of CHOICES is one of: operations, and numbers of operands."""
    if choice.name == "arith.select":
        return [(choice, 1), (choice, 2)]
    return [(terminator(region.blocks[0]), result) for region in choice.regions]


def variable(value: ir.Value) -> ir.Operation | None:
    """Return the ``memref.global`` that ``value`` is the address of."""
    op = defining_op(value)
    if op is None or op.name != "memref.get_global":
        return None
    name = op.attributes["name"].value
    return ir.SymbolTable(enclosing(op, ("builtin.module", "gpu.module")))[name].operation


def _is_constant_copy(op: ir.Operation) -> bool:
    """Return whether ``op`` is the descriptor of a constant's copy on the device, which nothing writes."""
    inner: ir.Operation | None = op
    while inner is not None and inner.name == "llvm.insertvalue":
        outer = defining_op(inner.operands[0])
        is_first = outer is None or outer.name != "llvm.insertvalue"
        inner = defining_op(inner.operands[1]) if is_first else outer
    while inner is not None and inner.name in _TO_ADDRESS:
        inner = defining_op(inner.operands[0])
    return inner is not None and callee(inner) == CONSTANT_COPY


def is_result(value: ir.Value) -> bool:
    """Return whether ``value`` is an argument that bufferization made of a function's result."""
    block = value.owner
    function = block.owner.operation if isinstance(block, ir.Block) else None
    if function is None or function.name != "func.func" or "arg_attrs" not in function.attributes:
        return False
    if block != function.regions[0].blocks[0]:
        return False
    return "bufferize.result" in function.attributes["arg_attrs"][value.arg_number]


def is_written(value: ir.Value, seen: set[ir.Value] | None = None) -> bool:
    """Return whether memory of ``value`` may be written, or escapes; kernels and callees are followed."""
    seen = set() if seen is None else seen
    for use in value.uses:
        op, number = use.owner.operation, use.operand_number
        if op.name in VIEWS or op.name == "memref.extract_strided_metadata":
            if is_written(op.results[0], seen):  # other results are numbers
                return True
        elif op.name in ("gpu.launch_func", "func.call"):
            inner = _parameter(op, number)
            if inner is None:
                if not PRINTS.fullmatch(callee(op)):
                    return True
            elif inner not in seen:
                seen.add(inner)
                if is_written(inner, seen):
                    return True
        elif not _only_reads(op, number):
            return True
    return False


def _only_reads(op: ir.Operation, number: int) -> bool:
    """Return whether ``op`` reads the memory of an operand, and nothing else."""
    if op.name in _READS:
        return number == range(len(op.operands))[_READS[op.name]]
    if not op.name.startswith("linalg.") or "operandSegmentSizes" not in op.attributes:
        return False
    return bool(number < op.attributes["operandSegmentSizes"][0])  # one of its `ins`


def _parameter(op: ir.Operation, number: int) -> ir.BlockArgument | None:
    """Return the parameter of the kernel or function that operand ``number`` of a call is passed to."""
    if op.name == "func.call":
        top, path = enclosing(op, ("builtin.module", "gpu.module")), [callee(op)]
    else:
        top, path = enclosing(op, ("builtin.module",)), op.attributes["kernel"].value
        number -= launch_operands(op, KERNEL_OPERANDS).start
    for name in path:
        if top is None or not len(top.regions) or name not in (symbols := ir.SymbolTable(top)):
            return None  # a gpu.binary has no symbols
        top = symbols[name].operation
    if top is None or not len(top.regions[0].blocks):
        return None
    arguments = top.regions[0].blocks[0].arguments
    return arguments[number] if 0 <= number < len(arguments) else None


def written_arguments(launch: ir.Operation) -> frozenset[int]:
    """Return the numbers of the launch's operands through which its kernel may write."""
    return frozenset(
        number
        for number in launch_operands(launch, KERNEL_OPERANDS)
        if isinstance(launch.operands[number].type, ir.MemRefType)
        and ((parameter := _parameter(launch, number)) is None or is_written(parameter))
    )
