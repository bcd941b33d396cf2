"""Non-temporal stores: results that are too large for any cache do not go through one.

A store to a line that no cache holds reads the line first, and drives others out. Kernels that fill a large
memref line by line are compiled once more with stores that do neither; a launch takes that code when the
memref is larger than the largest cache, which the runtime knows (``cache_bytes`` of cpu_image.h), and starts,
as all its rows and those of a workgroup do, at a piece that one store can write.

Such stores stay in order for the thread that makes them; a fence at the end puts them before whatever tells
other threads that the workgroups are done. Kernels whose workgroups talk to each other have none of this.

Edits of LLVM IR as text, for what neither MLIR nor llvmlite can do in the CPU back end.

Stores are made non-temporal after optimisation, not by MLIR's ``nontemporal`` attribute before it. LLVM's
vectoriser takes a loop with such stores only if each scalar one is aligned like a vector of two, which a
``f32`` is not, and the kernel has one body for results of every size. llvmlite reads instructions, but cannot
attach metadata to them.

Streaming kernels: their time depends on memory alone, so that LLVM's usual choices are not the best.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from llvmlite import binding
from mlir import ir

from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS
from gpubuild.engine.backends.cpu.fission.uniformity import (
    GROUP_IDS,
    ITEM_IDS,
    collective_ops,
    is_id,
    is_pure,
    nested,
    operations,
)
from gpubuild.engine.backends.cpu.state import STREAMING, CpuLowering, kernel_module
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.query import constant_integer

_FUNCTIONS = re.compile(r"^define [^\n]*\n.*?^}$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@(\"[^\"]*\"|[^(\s]+)\(")
_ADDRESS = re.compile(r"^  (?P<name>%\S+) = getelementptr [^\n]*?, ptr (?P<base>%[^,\s]+),", re.MULTILINE)
_STORE = re.compile(
    r"^  store <(?P<count>\d+) x (?P<element>\w+)> [^\n]*, ptr (?P<address>%[^,\s]+), align (?P<align>\d+)",
    re.MULTILINE,
)
_METADATA = re.compile(r"^!(\d+) =", re.MULTILINE)
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def mark_stores(module: binding.ModuleRef, bases: Mapping[str, frozenset[str]]) -> binding.ModuleRef:
    """Make vector stores of the functions in ``bases`` non-temporal that go through the values named there.

    Returns a copy if there are any: only after all optimisation is it known which stores are vectors, and
    LLVM's vectoriser leaves loops with non-temporal scalars alone. Vectors whose address is not known to be
    a multiple of a piece stay as they are.
    """
    if not bases:
        return module
    text = str(module)
    kind = f"!{1 + max((int(number) for number in _METADATA.findall(text)), default=-1)}"

    def rewrite(found: re.Match[str]) -> str:
        function = found[0]
        name = _NAME.search(function)
        wanted = bases.get(name[1].strip('"')) if name else None
        return function if wanted is None else _marked(function, wanted, kind)

    marked = _FUNCTIONS.sub(rewrite, text)
    if marked == text:
        return module
    return llvm.parse_assembly(f"{marked}\n{kind} = !{{i32 1}}\n", llvm.new_context())


def _marked(function: str, wanted: frozenset[str], kind: str) -> str:
    below = {found["name"]: found["base"] for found in _ADDRESS.finditer(function)}

    def rewrite(store: re.Match[str]) -> str:
        base = store["address"]
        while base in below:
            base = below[base]
        size_bytes = int(store["count"]) * _BITS.get(store["element"], 0) // 8
        if base.removeprefix("%") not in wanted or min(size_bytes, int(store["align"])) < PIECE_BYTES:
            return store[0]
        return f"{store[0]}, !nontemporal {kind}"

    return _STORE.sub(rewrite, function)


# Attributes (name, value) of their functions. Memory was read half as fast again by vectors of 32 bytes as by
# those of 64. Of loops that copy LLVM would make calls of memcpy, and the C library's is up to four times
# slower for some distances of source and destination.
FUNCTION_ATTRIBUTES = (
    ("prefer-vector-width", "256"),
    ("no-builtin-memcpy", ""),
    ("no-builtin-memmove", ""),
)
_LOOPS = frozenset({"scf.for", "scf.while", "scf.parallel"})
_CALLS = frozenset({"func.call", "llvm.call"})


def mark_streaming(module: ir.Module, _: CpuLowering) -> None:
    """Mark the kernels that stream."""
    for op in operations(kernel_module(module).regions[0].blocks[0]):
        if op.name == "gpu.func" and "gpu.kernel" in op.attributes and streams(op):
            op.attributes[STREAMING] = ir.UnitAttr.get()


def streams(kernel: ir.Operation) -> bool:
    """Return whether work-items do little but read and write each place of global memory once.

    So there is no mathematics, no call, no loop but those that all run together, and no memref of which an
    item loads twice, since neighbours then find in a cache what others loaded.
    """
    if len(kernel.regions[0].blocks) != 1:
        return False
    inside = [inner for op in operations(kernel.regions[0].blocks[0]) for inner in nested(op)]
    together = collective_ops(inside, kernel)
    loaded: set[ir.Value] = set()
    for op in inside:
        if op.name.startswith("math.") or op.name in _CALLS or (op.name in _LOOPS and op not in together):
            return False
        if op.name.endswith("load") and isinstance(op.operands[0].type, ir.MemRefType):
            memory = op.operands[0]
            if "workgroup" in str(ir.MemRefType(memory.type).memory_space):
                continue
            if memory in loaded:
                return False
            loaded.add(memory)
    return True


# What such a store writes at least, at an address that is a multiple of it: LLVM makes several of a longer
# vector where that is all it knows. Large blocks that malloc returns start in the middle of a line.
PIECE_BYTES = 16
WHOLE = (1, 2, 4, 8)  # bytes of elements of which a piece holds a whole number
_MOST_OPS = 100  # in larger kernels computing takes as long as storing; they would be compiled thrice
_VARYING = ITEM_IDS | {"gpu.subgroup_id"}
_TALK = ("memref.atomic_rmw", "memref.generic_atomic_rmw", "func.call")
# Of the gpu dialect; where work-items wait or exchange, memory is not all that counts, and code is long.
_ASKS = ITEM_IDS | GROUP_IDS | {"gpu.func", "gpu.return", "gpu.subgroup_id"}


def filled(kernel: ir.Operation, users: Iterable[ir.Operation]) -> bool:
    """Whether the kernel does little but fill the memref that ``users`` are the accesses of, row by row.

    Each of them is then a store of a scalar for which the next work-item's place is the next one, and no
    loop around it writes the same element again.
    """
    inside = nested(kernel)
    if len(inside) > _MOST_OPS or any(map(_is_more, inside)):
        return False
    stores = list(users)
    return bool(stores) and all(op.name == "memref.store" and _fills(op, kernel) for op in stores)


def _is_more(op: ir.Operation) -> bool:
    """Return whether more counts than memory: loops of unknown length, work with other work-items."""
    if op.name in _TALK or (op.name.startswith("gpu.") and op.name not in _ASKS):
        return True
    if op.name == "scf.for":
        bounds = list(op.operands)[:3]
        return not all(
            not isinstance(b.owner, ir.Block) and b.owner.operation.name == "arith.constant" for b in bounds
        )
    return op.name in ("scf.while", "scf.parallel")


def _fills(store: ir.Operation, kernel: ir.Operation) -> bool:
    *rows, last = list(store.operands)[2:] or [None]
    known: dict[ir.Value, int | None] = {}
    if last is None or _slope(last, known) != 1 or any(_slope(row, known) != 0 for row in rows):
        return False
    if _constant_part(last) % PIECE_BYTES:
        return False
    needed = {value for index in (*rows, last) for value in _needed(index)}
    around = store.parent.operation
    while around != kernel:
        if around.name == "scf.for":
            if around.regions[0].blocks[0].arguments[0] not in needed:
                return False
        elif around.name != "scf.if":
            return False
        around = around.parent.operation
    return True


def _slope(value: ir.Value, known: dict[ir.Value, int | None]) -> int | None:
    """Return by how much ``value`` grows from a work-item to the next one on x; ``None``: not known."""
    if value not in known:
        known[value] = _computed_slope(value, known)  # once: operands of operands may be the same ones
    return known[value]


def _computed_slope(value: ir.Value, known: dict[ir.Value, int | None]) -> int | None:
    if isinstance(value.owner, ir.Block):
        around = value.owner.owner.operation
        if around.name == "gpu.func":
            return 0
        is_counter = around.name == "scf.for" and value == value.owner.arguments[0]
        starts = list(around.operands)[:3] if is_counter else []
        return 0 if is_counter and all(_slope(start, known) == 0 for start in starts) else None
    op = value.owner.operation
    if op.name in _VARYING:
        return 1 if is_id(op, "x") else 0 if op.name in ("gpu.thread_id", "gpu.global_id") else None
    if op.name in CASTS:
        return _slope(op.operands[0], known)
    slopes = [_slope(operand, known) for operand in op.operands]
    if op.name == "arith.addi" and None not in slopes:
        return sum(slope for slope in slopes if slope is not None)
    return 0 if is_pure(op) and not any(slope != 0 for slope in slopes) else None


def _constant_part(value: ir.Value) -> int:
    """Return what is added to ``value`` as a number right where it is computed."""
    if isinstance(value.owner, ir.Block):
        return 0
    op = value.owner.operation
    terms = list(op.operands) if op.name == "arith.addi" else []
    return sum(constant_integer(term) or 0 for term in terms)


def _needed(value: ir.Value) -> set[ir.Value]:
    """Return ``value`` and everything that it is computed from."""
    found: set[ir.Value] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        if not isinstance(value.owner, ir.Block):
            pending.extend(value.owner.operation.operands)
    return found
