"""Find kernels that stream or fill large memrefs, and make the stores of the latter non-temporal.

A store to a line that no cache holds reads the line first, and displaces others. Kernels that fill a large
memref line by line are compiled again with stores that do neither. A launch uses that version when the memref
is larger than the largest cache (``cache_bytes`` of cpu_image.h) and is aligned, with all its rows and those
of a workgroup, to what one store writes. A thread's own stores stay in order; a fence at the end orders them
before anything that reports to other threads that the workgroups are done. Kernels whose workgroups
communicate have no such version.

Stores are made non-temporal in LLVM IR text after optimisation. LLVM's vectoriser handles a loop with such
stores only if each scalar one is aligned like a vector of two, and llvmlite cannot attach metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS
from gpubuild.engine.backends.cpu.fission.uniformity import (
    GROUP_IDS,
    ITEM_IDS,
    POSITIONS,
    all_operations,
    collective_ops,
    is_id,
    is_pure,
    nested,
)
from gpubuild.engine.backends.cpu.state import STREAMING, CpuLowering, gpu_kernels
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.query import constant_integer, defining_op

_FUNCTIONS = re.compile(r"^define [^\n]*\n.*?^}$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@(\"[^\"]*\"|[^(\s]+)\(")
_ADDRESS = re.compile(r"^  (?P<name>%\S+) = getelementptr [^\n]*?, ptr (?P<base>%[^,\s]+),", re.MULTILINE)
_STORE = re.compile(
    r"^  store <(?P<count>\d+) x (?P<element>\w+)> [^\n]*, ptr (?P<address>%[^,\s]+), align (?P<align>\d+)",
    re.MULTILINE,
)
_METADATA = re.compile(r"^!(\d+) =", re.MULTILINE)
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def mark_stores(module: llvm.Module, bases: Mapping[str, frozenset[str]]) -> llvm.Module:
    """Make vector stores through the pointers in ``bases``, by function, non-temporal.

    Returns a copy if there are any. Vectors without a known alignment stay unchanged. Call it after all
    optimisation.
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


# Attributes (name, value) of streaming kernels. Vectors of 32 bytes read memory 1.5 times as fast as those of
# 64. LLVM would make calls of memcpy of loops that copy, and the C library's is up to four times slower for
# some distances of source and destination.
FUNCTION_ATTRIBUTES = (
    ("prefer-vector-width", "256"),
    ("no-builtin-memcpy", ""),
    ("no-builtin-memmove", ""),
)
_LOOPS = frozenset({"scf.for", "scf.while", "scf.parallel"})
_CALLS = frozenset({"func.call", "llvm.call"})


def mark_streaming(module: ir.Module, _: CpuLowering) -> None:
    """Mark the kernels that stream."""
    for kernel in gpu_kernels(module):
        if streams(kernel):
            kernel.attributes[STREAMING] = ir.UnitAttr.get()


def streams(kernel: ir.Operation) -> bool:
    """Return whether work-items do little but read and write each element of global memory once.

    Such a kernel has no mathematics, no call, no loop but those around barriers, and loads from a memref
    once: otherwise neighbours may find elements in a cache.
    """
    if len(kernel.regions[0].blocks) != 1:
        return False
    inside = all_operations(kernel)
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


# The size and alignment of the smallest non-temporal store: LLVM splits a vector of unknown alignment into
# several. Large blocks of malloc start in the middle of a cache line.
PIECE_BYTES = 16
WHOLE = (1, 2, 4, 8)  # sizes of elements that such a store has a whole number of
_MOST_OPS = 100  # larger kernels compute for as long as they store
_VARYING = ITEM_IDS | {"gpu.subgroup_id"}
_TALK = ("memref.atomic_rmw", "memref.generic_atomic_rmw", "func.call")
# Operations of the gpu dialect that only read a position; the others need time, and much code.
_ASKS = ITEM_IDS | GROUP_IDS | {"gpu.func", "gpu.return", "gpu.subgroup_id"}


def filled(kernel: ir.Operation, users: Iterable[ir.Operation]) -> bool:
    """Return whether the kernel does little but fill a memref, which ``users`` access, row by row.

    Each access is then a store of a scalar, to the element next to that of the work-item before, and no
    loop around it writes the same element again.
    """
    inside = nested(kernel)
    if len(inside) > _MOST_OPS or any(map(_is_more, inside)):
        return False
    stores = list(users)
    return bool(stores) and all(op.name == "memref.store" and _fills(op, kernel) for op in stores)


def _is_more(op: ir.Operation) -> bool:
    """Return whether ``op`` may take longer than stores: loops of unknown length, communication."""
    if op.name in _TALK or (op.name.startswith("gpu.") and op.name not in _ASKS):
        return True
    if op.name == "scf.for":
        return None in map(constant_integer, list(op.operands)[:3])
    return op.name in ("scf.while", "scf.parallel")


def _fills(store: ir.Operation, kernel: ir.Operation) -> bool:
    *rows, last = list(store.operands)[2:] or [None]
    slope = _slopes()
    if last is None or slope(last) != 1 or any(slope(row) != 0 for row in rows):
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


def _slopes() -> Callable[[ir.Value], int | None]:
    """Return a function: the growth of a value from a work-item to the next on x; ``None``: not known."""

    @cache  # operands of operands may be the same ones
    def slope(value: ir.Value) -> int | None:
        op = defining_op(value)
        if op is None:
            around = value.owner.owner.operation
            if around.name == "gpu.func":
                return 0
            is_counter = around.name == "scf.for" and value == value.owner.arguments[0]
            return 0 if is_counter and all(slope(v) == 0 for v in list(around.operands)[:3]) else None
        if op.name in _VARYING:
            return 1 if is_id(op, "x") else 0 if op.name in POSITIONS else None
        if op.name in CASTS:
            return slope(op.operands[0])
        slopes = [slope(operand) for operand in op.operands]
        if op.name == "arith.addi" and None not in slopes:
            return sum(one for one in slopes if one is not None)
        return 0 if is_pure(op) and not any(one != 0 for one in slopes) else None

    return slope


def _constant_part(value: ir.Value) -> int:
    """Return the sum of the constants that the op of ``value`` adds."""
    op = defining_op(value)
    terms = op.operands if op is not None and op.name == "arith.addi" else ()
    return sum(constant_integer(term) or 0 for term in terms)


def _needed(value: ir.Value) -> set[ir.Value]:
    """Return ``value`` and all values that it is computed from."""
    found: set[ir.Value] = set()
    pending = [value]
    while pending:
        value = pending.pop()
        op = defining_op(value)
        if value not in found and op is not None:
            pending.extend(op.operands)
        found.add(value)
    return found
