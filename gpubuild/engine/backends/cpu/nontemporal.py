"""Non-temporal stores: results that are too large for any cache do not go through one.

A store to a line that no cache holds reads the line first, and drives others out. Kernels that fill a large
memref line by line are compiled once more with stores that do neither; a launch takes that code when the
memref is larger than the largest cache, which the runtime knows (``cache_bytes`` of cpu_image.h), and starts,
as all its rows and those of a workgroup do, at a piece that one store can write.

Such stores stay in order for the thread that makes them; a fence at the end puts them before whatever tells
other threads that the workgroups are done. Kernels whose workgroups talk to each other have none of this.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir import ir

from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS, is_id
from gpubuild.engine.backends.cpu.fission.uniformity import GROUP_IDS, ITEM_IDS, is_pure, nested
from gpubuild.engine.ir.query import constant_integer

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
