"""Check memory: which accesses of a kernel are to the same memory, where all of them are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import GROUP_IDS, GROUP_OPS, ITEM_IDS, nested
from gpubuild.engine.backends.cpu.sanitizer.check_access import WORKGROUP_SPACES, Access, access_of
from gpubuild.engine.backends.cpu.sanitizer.check_address import element_bytes
from gpubuild.engine.backends.cpu.sanitizer.check_range import constant_of
from gpubuild.engine.ir.query import VIEWS

# What a reinterpret_cast reaches need not be of what it was made from.
_SAME_MEMORY = (VIEWS - {"memref.reinterpret_cast"}) | {"vector.type_cast", "memref.assume_alignment"}
_SOURCES = frozenset({"memref.alloca", "memref.get_global", "gpu.dynamic_shared_memory"})
_ASKS = frozenset(
    {"memref.dim", "memref.extract_strided_metadata", "memref.extract_aligned_pointer_as_index"}
)
_NO_MEMORY = frozenset({"arith", "math", "index", "complex", "scf", "ub", "vector"})
_HARMLESS = (
    ITEM_IDS
    | GROUP_IDS
    | GROUP_OPS
    | {
        "gpu.return",
        "gpu.yield",
        "gpu.subgroup_id",
        "gpu.printf",
        "gpu.shuffle",
        "gpu.subgroup_reduce",
        "cf.assert",
        "memref.atomic_yield",
    }
)
DYNAMIC = "dynamic"  # the one dynamic workgroup memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One access, and whether it is through the memref itself rather than a view of it."""

    op: ir.Operation
    access: Access
    direct: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """All accesses to one piece of memory that others can see."""

    root: ir.Value
    in_workgroup: bool
    argument: bool  # a kernel's argument; else a variable of the module, or workgroup memory
    uses: list[Use]

    @property
    def modes(self) -> set[int]:
        """How it is accessed."""
        return {use.access.mode for use in self.uses}


def memories(kernel: ir.Operation) -> list[Memory] | None:
    """All memory that the kernel accesses; ``None`` when something may access more than can be seen."""
    entry = kernel.regions[0].blocks[0]
    found: dict[object, Memory] = {}
    apart = _pieces_apart(kernel)
    for op in nested(kernel):
        if op == kernel:
            continue
        if not _is_known(op):
            return None
        access = access_of(op)
        if access is None or access.private:
            continue
        root, direct = _root(access.memory, apart)
        is_entry_argument = isinstance(root.owner, ir.Block) and root.owner == entry
        in_workgroup = str(ir.MemRefType(root.type).memory_space) in WORKGROUP_SPACES
        name = "" if is_entry_argument or isinstance(root.owner, ir.Block) else root.owner.operation.name
        key: object = root
        if apart and (piece := _piece_of(root)) is not None:
            key = piece
        elif not is_entry_argument and name not in _SOURCES:
            return None
        elif name == "gpu.dynamic_shared_memory":
            key, in_workgroup = DYNAMIC, True
        elif name == "memref.get_global":
            key = str(root.owner.operation.attributes["name"])
        memory = found.setdefault(
            key,
            Memory(
                root=root, in_workgroup=in_workgroup, argument=is_entry_argument and not in_workgroup, uses=[]
            ),
        )
        memory.uses.append(Use(op=op, access=access, direct=direct))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the dynamic workgroup memory: its first byte, how many bytes, and its type."""

    first: int
    bytes_: int
    kind: str


def _piece_of(value: ir.Value) -> _Piece | None:
    """The part that ``value`` is, if it is a view of the dynamic memory at a place that is known now."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "memref.view":
        return None
    source, shift = list(value.owner.operation.operands)[:2]
    if isinstance(source.owner, ir.Block) or source.owner.operation.name != "gpu.dynamic_shared_memory":
        return None
    kind, first = ir.MemRefType(value.type), constant_of(shift)
    bytes_each = element_bytes(kind.element_type)
    if first is None or first < 0 or bytes_each is None or not kind.has_static_shape:
        return None
    return _Piece(first, math.prod(kind.shape) * bytes_each, str(kind))


def _pieces_apart(kernel: ir.Operation) -> bool:
    """Whether the dynamic memory is only used in such parts, and no two different ones share a byte."""
    pieces: set[_Piece] = set()
    for op in nested(kernel):
        if op.name != "gpu.dynamic_shared_memory":
            continue
        for use in op.results[0].uses:
            user = use.owner.operation
            piece = _piece_of(user.results[0]) if user.name == "memref.view" else None
            if piece is None:
                return False
            pieces.add(piece)
    ordered = sorted(pieces, key=lambda piece: piece.first)
    return bool(pieces) and all(a.first + a.bytes_ <= b.first for a, b in pairwise(ordered))


def is_contiguous(kind: ir.Type) -> bool:
    """Whether elements lie row by row without gaps, so that different indices are different elements."""
    shaped = ir.MemRefType(kind)
    plain = ir.MemRefType.get(shaped.shape, shaped.element_type, memory_space=shaped.memory_space)
    return bool(plain == shaped)


def writes(memory: Memory) -> bool:
    """Whether anything but a read is among the accesses."""
    return memory.modes != {image_layout.CHECK_READ}


def _root(memory: ir.Value, pieces: bool) -> tuple[ir.Value, bool]:
    direct = True
    while not isinstance(memory.owner, ir.Block) and memory.owner.operation.name in _SAME_MEMORY:
        if pieces and _piece_of(memory) is not None:
            break
        memory, direct = memory.owner.operation.operands[0], False
    return memory, direct


def _is_known(op: ir.Operation) -> bool:
    """Whether what ``op`` does to memory can be seen."""
    if op.name in _SAME_MEMORY | _SOURCES | _ASKS | _HARMLESS:
        return True
    if access_of(op) is not None:
        return True
    touched = (*op.operands, *op.results, *(a for r in op.regions for b in r.blocks for a in b.arguments))
    if any(isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType) for value in touched):
        return False
    return op.name.partition(".")[0] in _NO_MEMORY
