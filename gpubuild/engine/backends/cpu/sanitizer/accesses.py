"""Which operations access memory, which part of it, and which accesses are to the same memory.

Every operation that reads or writes a memref is described by one record, :class:`Access`. A kernel all of
whose accesses are known has a list of :class:`Memory`: :func:`memories`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import COLLECTIVE_OPS, GROUP_IDS, ITEM_IDS, nested
from gpubuild.engine.backends.cpu.sanitizer.ranges import constant_of
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import VIEWS

_LESS, _AT_MOST = 6, 7  # arith.cmpi predicates, unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One op's access to ``memory`` at ``indices``: one element, or ``count`` in the last dimension.

    An access that ``may_be_partial`` leaves out the elements beyond the end of the last dimension, as the
    dialect allows. ``masked`` ones leave out any; only their other dimensions are checked. ``private``
    memory is seen by one work-item only.
    """

    memory: ir.Value
    indices: tuple[ir.Value, ...]
    mode: int
    count: int = 1
    may_be_partial: bool = False
    masked: bool = False

    @property
    def private(self) -> bool:
        """Whether the memory is an ``alloca`` or of the private space, as far as the enclosing code shows."""
        if str(ir.MemRefType(self.memory.type).memory_space) in _PRIVATE_SPACES:
            return True
        source = self.memory
        while not isinstance(source.owner, ir.Block) and source.owner.operation.name in _SAME_MEMORY:
            source = source.owner.operation.operands[0]
        return not isinstance(source.owner, ir.Block) and source.owner.operation.name == "memref.alloca"

    @property
    def in_workgroup_memory(self) -> bool:
        """Whether the type says so, or says nothing because the space was cast away."""
        space = str(ir.MemRefType(self.memory.type).memory_space)
        return space in WORKGROUP_SPACES or self._is_cast()

    def _is_cast(self) -> bool:
        source = self.memory
        while not isinstance(source.owner, ir.Block) and source.owner.operation.name in _SAME_MEMORY:
            if source.owner.operation.name == "memref.memory_space_cast":
                return True
            source = source.owner.operation.operands[0]
        return not _is_kernel_argument(source)

    def contiguous(self, emit: Emitter) -> ir.Value:
        """How many elements are accessed, none of them beyond the end."""
        wanted = emit.constant(self.count)
        if not self.may_be_partial or not self.indices:
            return wanted
        size = dimension(emit, self.memory, len(self.indices) - 1)
        index = self.indices[-1]
        left = emit.binary("arith.subi", size, index)
        left = select(emit, compare(emit, _LESS, index, size), left, emit.constant(0))
        return select(emit, compare(emit, _AT_MOST, wanted, left), wanted, left)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An operation that makes a view of ``source``, with sizes that may be wrong."""

    op: ir.Operation
    source: ir.Value


_CLAIMS = frozenset({"memref.subview", "memref.view", "memref.cast", "memref.reshape"})
_SAME_MEMORY = VIEWS | {"vector.type_cast"}


_PRIVATE_SPACES = frozenset({"#gpu.address_space<private>", "5 : i64", "5", "5 : i32"})
WORKGROUP_SPACES = frozenset({"#gpu.address_space<workgroup>", "3 : i64", "3", "3 : i32"})


def _is_kernel_argument(source: ir.Value) -> bool:
    """Whether ``source`` is a kernel argument: workgroup memory only if its type says so."""
    block = source.owner
    if not isinstance(block, ir.Block):
        return False
    owner = block.owner.operation
    return (
        owner.name == "gpu.func" and "gpu.kernel" in owner.attributes and owner.regions[0].blocks[0] == block
    )


def access_of(op: ir.Operation) -> Access | None:
    """What ``op`` accesses; ``None`` for ops that access no memref or that are not checked."""
    reader = _ACCESSES.get(op.name)
    return reader(op) if reader else None


def view_of(op: ir.Operation) -> View | None:
    """The view that ``op`` makes, if it is one that can leave its source."""
    if op.name not in _CLAIMS or not isinstance(op.results[0].type, ir.MemRefType):
        return None
    source = op.operands[0]
    return View(op=op, source=source) if isinstance(source.type, ir.MemRefType) else None


def dimension(emit: Emitter, memory: ir.Value, number: int) -> ir.Value:
    """The size of one dimension, in elements."""
    shaped = ir.MemRefType(memory.type)
    if not shaped.is_dynamic_dim(number):
        return emit.constant(shaped.get_dim_size(number))
    if not isinstance(memory.owner, ir.Block) and memory.owner.operation.name == "gpu.dynamic_shared_memory":
        # The descriptor that upstream makes for it does not hold a size.
        return emit.op(
            "func.call",
            [],
            [ir.IndexType.get()],
            {"callee": ir.FlatSymbolRefAttr.get(image_layout.CHECK_DYNAMIC_BYTES)},
        ).results[0]
    return emit.op("memref.dim", [memory, emit.constant(number)], [ir.IndexType.get()]).results[0]


def compare(emit: Emitter, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
    """``arith.cmpi``."""
    attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    i1 = ir.IntegerType.get_signless(1)
    return emit.op("arith.cmpi", [left, right], [i1], {"predicate": attribute}).results[0]


def select(emit: Emitter, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
    """``arith.select``."""
    return emit.op("arith.select", [condition, yes, no], [yes.type]).results[0]


def _load(op: ir.Operation) -> Access:
    memory, *indices = list(op.operands)
    return Access(memory=memory, indices=tuple(indices), mode=image_layout.CHECK_READ)


def _store(op: ir.Operation) -> Access:
    _, memory, *indices = list(op.operands)
    return Access(memory=memory, indices=tuple(indices), mode=image_layout.CHECK_WRITE)


def _atomic(op: ir.Operation) -> Access:
    _, memory, *indices = list(op.operands)
    return Access(memory=memory, indices=tuple(indices), mode=image_layout.CHECK_ATOMIC)


def _atomic_region(op: ir.Operation) -> Access:
    memory, *indices = list(op.operands)
    return Access(memory=memory, indices=tuple(indices), mode=image_layout.CHECK_ATOMIC)


def _vector_load(op: ir.Operation) -> Access | None:
    memory, *indices = list(op.operands)
    return _vector_access(op.results[0].type, memory, indices, image_layout.CHECK_READ)


def _vector_store(op: ir.Operation) -> Access | None:
    vector, memory, *indices = list(op.operands)
    return _vector_access(vector.type, memory, indices, image_layout.CHECK_WRITE)


def _vector_access(kind: ir.Type, memory: ir.Value, indices: list[ir.Value], mode: int) -> Access | None:
    vector = ir.VectorType(kind)
    element = ir.MemRefType(memory.type).element_type
    if isinstance(element, ir.VectorType):
        return Access(memory=memory, indices=tuple(indices), mode=mode)
    if vector.rank > 1:
        return None  # upstream lowers no such op for devices
    count = vector.shape[0] if vector.rank else 1
    return Access(memory=memory, indices=tuple(indices), mode=mode, count=count)


def _transfer_read(op: ir.Operation) -> Access | None:
    return _transfer(op, op.results[0].type, op.operands[0], 1, image_layout.CHECK_READ)


def _transfer_write(op: ir.Operation) -> Access | None:
    return _transfer(op, op.operands[0].type, op.operands[1], 2, image_layout.CHECK_WRITE)


def _transfer(op: ir.Operation, kind: ir.Type, memory: ir.Value, first: int, mode: int) -> Access | None:
    """A transfer as convert-vector-to-scf leaves it: of one dimension, along the last of the memref."""
    vector, shaped = ir.VectorType(kind), memory.type
    if not isinstance(shaped, ir.MemRefType) or vector.rank > 1:
        return None
    if vector.rank and isinstance(ir.MemRefType(shaped).element_type, ir.VectorType):
        return None
    indices = tuple(op.operands)[first : first + ir.MemRefType(shaped).rank]
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    masked = segments[-1] > 0
    if not vector.rank:
        return Access(memory=memory, indices=indices, mode=mode, masked=masked)
    in_bounds = "in_bounds" in op.attributes and all(
        ir.BoolAttr(flag).value for flag in ir.ArrayAttr(op.attributes["in_bounds"])
    )
    return Access(
        memory=memory,
        indices=indices,
        mode=mode,
        count=vector.shape[0],
        may_be_partial=not in_bounds,
        masked=masked,
    )


_ACCESSES: dict[str, Callable[[ir.Operation], Access | None]] = {
    "memref.load": _load,
    "memref.store": _store,
    "memref.atomic_rmw": _atomic,
    "memref.generic_atomic_rmw": _atomic_region,
    "vector.load": _vector_load,
    "vector.store": _vector_store,
    "vector.transfer_read": _transfer_read,
    "vector.transfer_write": _transfer_write,
}


_INDEX_BYTES = 8


def element_bytes(kind: ir.Type) -> int | None:
    """Bytes from one element to the next; ``None`` for kinds of elements that are not checked."""
    if isinstance(kind, ir.IndexType):
        return _INDEX_BYTES
    if isinstance(kind, ir.IntegerType):
        return _power_of_two((ir.IntegerType(kind).width + 7) // 8)
    if isinstance(kind, ir.FloatType):
        return _power_of_two((ir.FloatType(kind).width + 7) // 8)
    if isinstance(kind, ir.ComplexType):
        part = element_bytes(ir.ComplexType(kind).element_type)
        return None if part is None else 2 * part
    if isinstance(kind, ir.VectorType):
        vector = ir.VectorType(kind)
        part = element_bytes(vector.element_type)
        if part is None or vector.rank > 1:
            return None
        return _power_of_two(part * (vector.shape[0] if vector.rank else 1))
    return None


def first_address(emit: Emitter, access: Access, bytes_each: int) -> ir.Value:
    """The address of the first element, as an index."""
    memory, kind = access.memory, ir.MemRefType(access.memory.type)
    index = ir.IndexType.get()
    start = emit.op("memref.extract_aligned_pointer_as_index", [memory], [index]).results[0]
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    parts = emit.op(
        "memref.extract_strided_metadata", [memory], [base, index, *[index] * (2 * kind.rank)]
    ).results
    position = parts[1]
    for number, value in enumerate(access.indices):
        step = emit.binary("arith.muli", value, parts[2 + kind.rank + number])
        position = emit.binary("arith.addi", position, step)
    scaled = emit.binary("arith.muli", position, emit.constant(bytes_each))
    return emit.binary("arith.addi", start, scaled)


def whole_memory(emit: Emitter, memory: ir.Value, bytes_each: int) -> tuple[ir.Value, ir.Value]:
    """Address and bytes of all from a memref's first element to its last."""
    kind, index = ir.MemRefType(memory.type), ir.IndexType.get()
    start = emit.op("memref.extract_aligned_pointer_as_index", [memory], [index]).results[0]
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    parts = emit.op(
        "memref.extract_strided_metadata", [memory], [base, index, *[index] * (2 * kind.rank)]
    ).results
    one = emit.constant(1)
    elements = one
    for number in range(kind.rank):
        steps = emit.binary("arith.subi", parts[2 + number], one)
        reach = emit.binary("arith.muli", steps, parts[2 + kind.rank + number])
        elements = emit.binary("arith.addi", elements, reach)
    bytes_ = emit.constant(bytes_each)
    offset = emit.binary("arith.muli", parts[1], bytes_)
    return emit.binary("arith.addi", start, offset), emit.binary("arith.muli", elements, bytes_)


def _power_of_two(bytes_: int) -> int:
    return 1 << (bytes_ - 1).bit_length()


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
DYNAMIC = "dynamic"  # the one dynamic workgroup memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One access, and whether it is through the memref itself rather than a view of it."""

    op: ir.Operation
    access: Access
    direct: bool


@dataclass(slots=True, kw_only=True)
class Memory:
    """All accesses to one piece of memory that several work-items can access."""

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
    """A part of the dynamic workgroup memory: its first byte, its bytes, and its type."""

    first: int
    bytes_: int
    kind: str


def _piece_of(value: ir.Value) -> _Piece | None:
    """The part that ``value`` is, if it is a view of the dynamic memory at a constant offset."""
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
    """Whether the dynamic memory is only used in such parts, and no two of them overlap."""
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
