"""Check access: which ops read or write memory, and what part of it, in one form for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
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
        """Whether the memory is an ``alloca`` or of the private space, as far as the code around tells."""
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
    """One op that makes a view of ``source``, whose sizes it may get wrong."""

    op: ir.Operation
    source: ir.Value


_CLAIMS = frozenset({"memref.subview", "memref.view", "memref.cast", "memref.reshape"})
_SAME_MEMORY = VIEWS | {"vector.type_cast"}


_PRIVATE_SPACES = frozenset({"#gpu.address_space<private>", "5 : i64", "5", "5 : i32"})
WORKGROUP_SPACES = frozenset({"#gpu.address_space<workgroup>", "3 : i64", "3", "3 : i32"})


def _is_kernel_argument(source: ir.Value) -> bool:
    """What a kernel is given is never workgroup memory, whose types say that they are."""
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
