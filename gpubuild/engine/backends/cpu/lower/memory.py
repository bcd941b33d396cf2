"""Memory of kernels on CPUs: offsets of workgroup variables, atomics, private arrays, address spaces."""

from __future__ import annotations

import re
from functools import cache

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
from gpubuild.engine.ir.passes import Lowering, Pass, rewrite_each, rewriting
from gpubuild.engine.ir.query import enclosing, symbol_name
from gpubuild.errors import StepError
from gpubuild.support.frozen import frozen

_WORKGROUP_SPACE = 3
_SCALAR_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "ptr": 8}


@frozen
class _Variable:
    """A variable of the workgroup, ``offset_bytes`` behind one of the work-item's pointers."""

    offset_bytes: int
    base: int = image_layout.ITEM_SHARED  # which pointer: its byte offset in gb_cpu_item


def place_workgroup_memory(module: ir.Module, lowering: CpuLowering) -> None:
    """Replace addresses of workgroup variables and erase these. All kernels of a module share one plan."""
    kernels = kernel_module(module)
    found = functions(kernels)
    defined = {symbol_name(function) for function in found}
    workgroup_functions = {
        symbol_name(f): f.attributes[WORKGROUP_OF].value for f in found if WORKGROUP_OF in f.attributes
    }
    shared = {
        symbol_name(op): op
        for op in (one.operation for one in kernels.regions[0].blocks[0])
        if op.name == "llvm.mlir.global" and op.attributes["addr_space"].value == _WORKGROUP_SPACE
    }
    sizes = {name: size_in_bytes(str(op.attributes["global_type"].value)) for name, op in shared.items()}
    offsets = _plan(sizes, workgroup_functions, lowering)

    def replace_address(op: ir.Operation, _: CpuLowering) -> None:
        name = ir.FlatSymbolRefAttr(op.attributes["global_name"]).value
        if enclosing(op, ("llvm.func",)) is None:
            return
        if name in defined:
            raise lowering.unsupported(op, f"taking the address of function @{name}")
        if (variable := offsets.get(name)) is not None:
            build = LlvmBuilder(op)
            pointer = build.load(work_item(op), variable.base, "!llvm.ptr")
            start = build.offset(pointer, variable.offset_bytes)
            replace(op, build.value("llvm.addrspacecast", op.results[0].type, start))

    rewriting("place-workgroup-memory", {"llvm.mlir.addressof": replace_address}).run(module, lowering)
    for variable in shared.values():
        variable.erase()


def _plan(
    sizes: dict[str, int], workgroup_functions: dict[str, str], lowering: CpuLowering
) -> dict[str, _Variable]:
    """Return an offset for each of the variables, whose sizes are in ``sizes``."""
    placed: dict[str, _Variable] = {}
    lowering.context_bytes = dict.fromkeys(workgroup_functions.values(), 0)
    for name in list(sizes):
        kernel = workgroup_functions.get(owner_of_context_array(name))
        if kernel is not None:
            # Context arrays of different kernels may overlap: a thread runs one at a time.
            offset = lowering.context_bytes[kernel]
            placed[name] = _Variable(offset_bytes=offset, base=image_layout.ITEM_CONTEXTS)
            # Arrays at a distance of some pages would compete for the same cache sets.
            end = offset + sizes.pop(name) + image_layout.SHARED_ALIGNMENT
            lowering.context_bytes[kernel] = _aligned(end)
    # A workgroup function shares the variables of its kernel.
    twins = {f"__wg_{f}": f"__wg_{k}" for f, k in workgroup_functions.items()}  # upstream's prefix of names
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
        # Vectors are aligned to the next power of two, also in arrays.
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


def _read_modify_write(op: ir.Operation, _: CpuLowering) -> None:
    pointer, operand = op.operands
    number = ir.IntegerAttr(op.attributes["bin_op"]).value
    if str(pointer.type) != _WORKGROUP_POINTER or (number != _EXCHANGE and number not in _OPERATIONS):
        return
    build = LlvmBuilder(op)
    old = build.value("llvm.load", operand.type, pointer, ordering=_RELAXED)
    new = operand if number == _EXCHANGE else build.binary(_OPERATIONS[number], old, operand)
    build.op("llvm.store", [], [new, pointer], ordering=_RELAXED)
    replace(op, old)


def _compare_and_exchange(op: ir.Operation, _: CpuLowering) -> None:
    pointer, expected, wanted = op.operands
    if str(pointer.type) != _WORKGROUP_POINTER or not isinstance(expected.type, ir.IntegerType):
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


# One thread runs all work-items of a workgroup, in every tier, and those of a cluster too. It changes from
# one work-item to another only where they wait, never inside an operation. So no other thread accesses
# workgroup memory, and a load, an operation and a store suffice, and are much faster.
RELAX_WORKGROUP_ATOMICS: Pass[CpuLowering] = rewriting(
    "relax-workgroup-atomics",
    {"llvm.atomicrmw": _read_modify_write, "llvm.cmpxchg": _compare_and_exchange},
)


# Loops whose body is an allocation scope: memory made in an iteration ends with it, so that all
# iterations may use the same memory.
_SCOPED_LOOPS = frozenset({"scf.for", "scf.forall", "scf.parallel", "affine.for", "affine.parallel"})
_ONCE = frozenset({"scf.if", "scf.index_switch", "scf.execute_region", "affine.if"})
_FUNCTIONS = frozenset({"gpu.func", "func.func"})


def hoist_allocations(module: ir.Module, _: Lowering) -> None:
    """Move each ``memref.alloca`` of constant size out of the loops it is in, to its function's entry.

    In a loop it would use up the stack of a work-item.
    """
    found: list[ir.Operation] = []
    rewrite_each(module.operation, {"memref.alloca": found.append})
    for op in found:
        function = None if len(op.operands) else _function_around(op)
        first = function.regions[0].blocks[0].operations[0].operation if function is not None else op
        if first != op:
            op.move_before(first)


def _function_around(op: ir.Operation) -> ir.Operation | None:
    """Return the function to whose entry ``op`` may move, through scoped loops and code that runs once."""
    parent = op.parent
    while parent is not None:
        name = parent.operation.name
        if name in _FUNCTIONS:
            # In a function with several blocks only structured operations show where a loop is.
            blocks = parent.operation.regions[0].blocks
            return parent.operation if len(blocks) == 1 or op.parent.operation != parent.operation else None
        if name not in _SCOPED_LOOPS and name not in _ONCE:
            return None
        parent = parent.operation.parent
    return None


_POINTER = re.compile(r'"(?:[^"\\]|\\.)*"|\bptr<\d+>')  # names in quotes stay


def drop_address_spaces(module: ir.Module, _: CpuLowering) -> None:
    """Make every pointer a plain ``!llvm.ptr`` in types of values, attributes and functions."""
    casts: list[ir.Operation] = []

    @cache
    def plain(old: ir.Type) -> ir.Type:
        text = str(old)
        new = _POINTER.sub(lambda m: m[0] if m[0].startswith('"') else "ptr", text)
        return old if new == text else ir.Type.parse(new)

    def attribute(old: ir.Attribute) -> ir.Attribute:
        if isinstance(old, ir.TypeAttr):
            return ir.TypeAttr.get(plain(old.value))
        if isinstance(old, ir.ArrayAttr):
            return ir.ArrayAttr.get([attribute(item) for item in old])
        if isinstance(old, ir.DictAttr):
            return ir.DictAttr.get({old[i].name: attribute(old[i].attr) for i in range(len(old))})
        return old

    def visit(op: ir.Operation) -> ir.WalkResult:
        arguments = (a for region in op.regions for block in region.blocks for a in block.arguments)
        for value in (*op.results, *arguments):
            if (kind := plain(value.type)) != value.type:
                value.set_type(kind)
        for name in list(op.attributes):
            old = op.attributes[name]
            if (new := attribute(old)) != old:
                op.attributes[name] = new
        if op.name == "llvm.mlir.global":
            op.attributes["addr_space"] = ir.Attribute.parse("0 : i32")
        if op.name == "llvm.addrspacecast":
            casts.append(op)
        return ir.WalkResult.ADVANCE

    kernel_module(module).walk(visit)
    for cast in casts:
        cast.results[0].replace_all_uses_with(cast.operands[0])
        cast.erase()
