"""Find the memory accesses of kernels and group them by memory.

:class:`Access` describes an operation that reads or writes a memref. :func:`memories` groups all accesses
of a kernel by the memory that they use, unless an operation may access memory in a way that is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import (
    COLLECTIVE_OPS,
    GROUP_IDS,
    ITEM_IDS,
    defined_values,
    nested,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import VIEWS, constant_integer, defining_op, element_bytes
from gpubuild.engine.legalize.workgroup import WORKGROUP_SPACES

# The result of a reinterpret_cast need not lie in the memory of its operand.
_SAME_MEMORY = (VIEWS - {"memref.reinterpret_cast"}) | {"vector.type_cast"}
_SOURCES = frozenset({"memref.alloca", "memref.get_global", "gpu.dynamic_shared_memory"})
_QUERIES = frozenset(
    {"memref.dim", "memref.extract_strided_metadata", "memref.extract_aligned_pointer_as_index"}
)
_PURE_DIALECTS = frozenset({"arith", "math", "index", "complex", "scf", "ub", "vector"})
_WITHOUT_ACCESS = (
    _SAME_MEMORY
    | _SOURCES
    | _QUERIES
    | ITEM_IDS
    | GROUP_IDS
    | COLLECTIVE_OPS
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
_PRIVATE_SPACES = frozenset({"#gpu.address_space<private>", "5 : i64", "5", "5 : i32"})

# Number of the memref among the operands, which the indices follow, and the mode.
_ACCESSES = {
    "memref.load": (0, image_layout.CHECK_READ),
    "memref.store": (1, image_layout.CHECK_WRITE),
    "memref.atomic_rmw": (1, image_layout.CHECK_ATOMIC),
    "memref.generic_atomic_rmw": (0, image_layout.CHECK_ATOMIC),
    "vector.load": (0, image_layout.CHECK_READ),
    "vector.store": (1, image_layout.CHECK_WRITE),
    "vector.transfer_read": (0, image_layout.CHECK_READ),
    "vector.transfer_write": (1, image_layout.CHECK_WRITE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One op's access to ``memory`` at ``indices``: one element, or ``count`` in the last dimension.

    An access that ``may_be_partial`` leaves out the elements beyond the end of the last dimension, as the
    dialect allows. A ``masked`` one may leave out any; only its other dimensions are checked.
    """

    memory: ir.Value
    indices: tuple[ir.Value, ...]
    mode: int
    count: int = 1
    may_be_partial: bool = False
    masked: bool = False

    @property
    def private(self) -> bool:
        """Whether only one work-item sees the memory: an ``alloca``, or of the private space."""
        if _space(self.memory) in _PRIVATE_SPACES:
            return True
        *_, source = _sources(self.memory)
        owner = defining_op(source)
        return owner is not None and owner.name == "memref.alloca"

    @property
    def in_workgroup_memory(self) -> bool:
        """Whether the memory may be the workgroup's: by its type, or since its space is not known."""
        if _space(self.memory) in WORKGROUP_SPACES:
            return True
        *_, source = chain = list(_sources(self.memory))
        casts = (owner for value in chain if (owner := defining_op(value)) is not None)
        return any(op.name == "memref.memory_space_cast" for op in casts) or not _is_kernel_argument(source)

    def checked_dimensions(self) -> Iterator[tuple[int, ir.Value, int]]:
        """Return number, index and element count of the dimensions whose bounds are checked."""
        last = len(self.indices) - 1
        for number, index in enumerate(self.indices):
            if number < last:
                yield number, index, 1
            elif not (self.masked or self.may_be_partial):
                yield number, index, self.count

    def accessed_count(self, emit: Emitter) -> ir.Value:
        """Emit the number of accessed elements, without those beyond the end."""
        count = emit.constant(self.count)
        if not self.may_be_partial or not self.indices:
            return count
        index = self.indices[-1]
        size = dimension(emit, self.memory, len(self.indices) - 1)
        left = emit.select(
            emit.compare(Compare.ULT, index, size), emit.binary("arith.subi", size, index), emit.constant(0)
        )
        return emit.binary("arith.minui", count, left)


def access_of(op: ir.Operation) -> Access | None:
    """Return the access of ``op``; ``None`` for ops that access no memref or are not checked."""
    if op.name not in _ACCESSES:
        return None
    position, mode = _ACCESSES[op.name]
    memory, *rest = list(op.operands)[position:]
    if not isinstance(memory.type, ir.MemRefType):
        return None
    kind = ir.MemRefType(memory.type)
    indices = tuple(rest[: kind.rank])
    if not op.name.startswith("vector."):
        return Access(memory=memory, indices=indices, mode=mode)
    vector = ir.VectorType((op.results[0] if len(op.results) else op.operands[0]).type)
    is_transfer = op.name.startswith("vector.transfer_")
    if isinstance(kind.element_type, ir.VectorType):
        return None if is_transfer else Access(memory=memory, indices=indices, mode=mode)
    if vector.rank > 1:
        return None  # upstream lowers no such op for devices; convert-vector-to-scf leaves no such transfer
    return Access(
        memory=memory,
        indices=indices,
        mode=mode,
        count=vector.shape[0] if vector.rank else 1,
        may_be_partial=is_transfer and not is_in_bounds(op),
        masked=is_transfer and list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[-1] > 0,
    )


def is_in_bounds(op: ir.Operation) -> bool:
    """Return whether a transfer claims that all its elements exist."""
    flags = ir.ArrayAttr(op.attributes["in_bounds"]) if "in_bounds" in op.attributes else None
    return flags is not None and all(ir.BoolAttr(flag).value for flag in flags)


def _space(memory: ir.Value) -> str:
    return str(ir.MemRefType(memory.type).memory_space)


def _sources(memory: ir.Value) -> Iterator[ir.Value]:
    """Return ``memory``, what it is a view of, and so on."""
    yield memory
    while (op := defining_op(memory)) is not None and op.name in _SAME_MEMORY:
        memory = op.operands[0]
        yield memory


def _is_kernel_argument(value: ir.Value) -> bool:
    block = value.owner
    if not isinstance(block, ir.Block):
        return False
    owner = block.owner.operation
    return (
        owner.name == "gpu.func" and "gpu.kernel" in owner.attributes and owner.regions[0].blocks[0] == block
    )


def dimension(emit: Emitter, memory: ir.Value, number: int) -> ir.Value:
    """Emit the size of one dimension, in elements."""
    shaped = ir.MemRefType(memory.type)
    if not shaped.is_dynamic_dim(number):
        return emit.constant(shaped.get_dim_size(number))
    index = ir.IndexType.get()
    owner = defining_op(memory)
    if owner is not None and owner.name == "gpu.dynamic_shared_memory":
        # Upstream's descriptor of it has no size.
        callee = {"callee": ir.FlatSymbolRefAttr.get(image_layout.CHECK_DYNAMIC_BYTES)}
        return emit.op("func.call", [], [index], callee).results[0]
    return emit.op("memref.dim", [memory, emit.constant(number)], [index]).results[0]


def layout(emit: Emitter, memory: ir.Value) -> tuple[ir.Value, list[ir.Value], list[ir.Value]]:
    """Emit offset, sizes and strides of a memref, in elements."""
    kind, index = ir.MemRefType(memory.type), ir.IndexType.get()
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    types = [base, index, *[index] * (2 * kind.rank)]
    _, offset, *rest = emit.op("memref.extract_strided_metadata", [memory], types).results
    return offset, rest[: kind.rank], rest[kind.rank :]


def _address(emit: Emitter, memory: ir.Value, position: ir.Value, bytes_each: int) -> ir.Value:
    start = emit.op("memref.extract_aligned_pointer_as_index", [memory], [ir.IndexType.get()]).results[0]
    return emit.binary("arith.addi", start, emit.binary("arith.muli", position, emit.constant(bytes_each)))


def first_address(emit: Emitter, access: Access, bytes_each: int) -> ir.Value:
    """Emit the address of the first accessed element, as an index."""
    position, _, strides = layout(emit, access.memory)
    for index, stride in zip(access.indices, strides, strict=True):
        position = emit.binary("arith.addi", position, emit.binary("arith.muli", index, stride))
    return _address(emit, access.memory, position, bytes_each)


def whole_memory(emit: Emitter, memory: ir.Value, bytes_each: int) -> tuple[ir.Value, ir.Value]:
    """Emit the address and the bytes of a memref, from the first element to the last."""
    offset, sizes, strides = layout(emit, memory)
    elements = one = emit.constant(1)
    for size, stride in zip(sizes, strides, strict=True):
        reach = emit.binary("arith.muli", emit.binary("arith.subi", size, one), stride)
        elements = emit.binary("arith.addi", elements, reach)
    bytes_ = emit.binary("arith.muli", elements, emit.constant(bytes_each))
    return _address(emit, memory, offset, bytes_each), bytes_


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One access; a ``direct`` one is through the memref itself, not a view of it."""

    op: ir.Operation
    access: Access
    direct: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """All accesses to one memory that several work-items can access."""

    root: ir.Value
    in_workgroup: bool
    argument: bool  # of the kernel, in global memory
    uses: list[Use] = field(default_factory=list)

    @property
    def is_written(self) -> bool:
        """Whether any access is not a read."""
        return any(use.access.mode != image_layout.CHECK_READ for use in self.uses)


def memories(kernel: ir.Operation) -> list[Memory] | None:
    """Return all memory that the kernel accesses; ``None`` when an op may access other memory."""
    entry_arguments = list(kernel.regions[0].blocks[0].arguments)
    found: dict[object, Memory] = {}
    inside = [op for op in nested(kernel) if op != kernel]
    has_parts = _has_disjoint_parts(inside)
    for op in inside:
        access = access_of(op)
        if access is None and not _is_known(op):
            return None
        if access is None or access.private:
            continue
        part = None
        for root in _sources(access.memory):
            part = _dynamic_part(root) if has_parts else None
            if part is not None:
                break
        in_workgroup = _space(root) in WORKGROUP_SPACES
        is_argument = root in entry_arguments
        owner = defining_op(root)
        key: object = root
        if part is not None:
            key = part
        elif owner is not None and owner.name == "gpu.dynamic_shared_memory":
            key, in_workgroup = owner.name, True
        elif owner is not None and owner.name == "memref.get_global":
            key = str(owner.attributes["name"])
        elif not is_argument:
            return None
        memory = Memory(root=root, in_workgroup=in_workgroup, argument=is_argument and not in_workgroup)
        uses = found.setdefault(key, memory).uses
        uses.append(Use(op=op, access=access, direct=root == access.memory))
    return list(found.values())


def _dynamic_part(value: ir.Value) -> tuple[int, int, str] | None:
    """Return first byte, end and type of a view of the dynamic memory at a constant offset."""
    view = defining_op(value)
    if view is None or view.name != "memref.view":
        return None
    source = defining_op(view.operands[0])
    kind, first = ir.MemRefType(value.type), constant_integer(view.operands[1])
    bytes_each = element_bytes(kind.element_type)
    if source is None or source.name != "gpu.dynamic_shared_memory" or not kind.has_static_shape:
        return None
    if first is None or first < 0 or bytes_each is None:
        return None
    return first, first + math.prod(kind.shape) * bytes_each, str(kind)


def _has_disjoint_parts(inside: list[ir.Operation]) -> bool:
    """Return whether the dynamic memory is used only in such parts, none of which overlap."""
    whole = [op.results[0] for op in inside if op.name == "gpu.dynamic_shared_memory"]
    users = [use.owner.operation for memory in whole for use in memory.uses]
    parts = {_dynamic_part(op.results[0]) if op.name == "memref.view" else None for op in users}
    ordered = sorted(part for part in parts if part is not None)
    return None not in parts and bool(parts) and all(a[1] <= b[0] for a, b in pairwise(ordered))


def is_contiguous(kind: ir.Type) -> bool:
    """Return whether elements lie row by row without gaps: different indices are different elements."""
    shaped = ir.MemRefType(kind)
    plain = ir.MemRefType.get(shaped.shape, shaped.element_type, memory_space=shaped.memory_space)
    return bool(plain == shaped)


def _is_known(op: ir.Operation) -> bool:
    """Return whether ``op``, which has no :class:`Access`, accesses no memory."""
    if op.name in _WITHOUT_ACCESS:
        return True
    touched = (*op.operands, *defined_values(op))
    if any(isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType) for value in touched):
        return False
    return op.name.partition(".")[0] in _PURE_DIALECTS
