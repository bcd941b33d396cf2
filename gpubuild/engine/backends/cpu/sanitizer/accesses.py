"""Which operations access memory, which part of it, and which accesses are to the same memory.

Every operation that reads or writes a memref is described by one record, :class:`Access`. A kernel all of
whose accesses are known has a list of :class:`Memory`: :func:`memories`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import COLLECTIVE_OPS, GROUP_IDS, ITEM_IDS, nested
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import VIEWS


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
        """Return how many elements are accessed, none of them beyond the end."""
        wanted = emit.constant(self.count)
        if not self.may_be_partial or not self.indices:
            return wanted
        size = dimension(emit, self.memory, len(self.indices) - 1)
        index = self.indices[-1]
        left = emit.binary("arith.subi", size, index)
        left = emit.select(emit.compare(Compare.ULT, index, size), left, emit.constant(0))
        return emit.select(emit.compare(Compare.ULE, wanted, left), wanted, left)


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
    """Return whether ``source`` is an argument of a kernel: the type of workgroup memory would say so."""
    block = source.owner
    if not isinstance(block, ir.Block):
        return False
    owner = block.owner.operation
    return (
        owner.name == "gpu.func" and "gpu.kernel" in owner.attributes and owner.regions[0].blocks[0] == block
    )


def access_of(op: ir.Operation) -> Access | None:
    """Return what ``op`` accesses; ``None`` for ops that access no memref or that are not checked."""
    reader = _ACCESSES.get(op.name)
    return reader(op) if reader else None


def view_of(op: ir.Operation) -> View | None:
    """Return the view that ``op`` makes, if it is one that can leave its source."""
    if op.name not in _CLAIMS or not isinstance(op.results[0].type, ir.MemRefType):
        return None
    source = op.operands[0]
    return View(op=op, source=source) if isinstance(source.type, ir.MemRefType) else None


def dimension(emit: Emitter, memory: ir.Value, number: int) -> ir.Value:
    """Return the size of one dimension, in elements."""
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


def first_address(emit: Emitter, access: Access, bytes_each: int) -> ir.Value:
    """Return the address of the first element, as an index."""
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
    """Return address and bytes of all from a memref's first element to its last."""
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
    for op in nested(kernel):
        if op == kernel:
            continue
        if not _is_known(op):
            return None
        access = access_of(op)
        if access is None or access.private:
            continue
        root, direct = _root(access.memory)
        is_entry_argument = isinstance(root.owner, ir.Block) and root.owner == entry
        in_workgroup = str(ir.MemRefType(root.type).memory_space) in WORKGROUP_SPACES
        name = "" if is_entry_argument or isinstance(root.owner, ir.Block) else root.owner.operation.name
        key: object = root
        if not is_entry_argument and name not in _SOURCES:
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


def is_contiguous(kind: ir.Type) -> bool:
    """Whether elements lie row by row without gaps, so that different indices are different elements."""
    shaped = ir.MemRefType(kind)
    plain = ir.MemRefType.get(shaped.shape, shaped.element_type, memory_space=shaped.memory_space)
    return bool(plain == shaped)


def writes(memory: Memory) -> bool:
    """Return whether anything but a read is among the accesses."""
    return memory.modes != {image_layout.CHECK_READ}


def _root(memory: ir.Value) -> tuple[ir.Value, bool]:
    direct = True
    while not isinstance(memory.owner, ir.Block) and memory.owner.operation.name in _SAME_MEMORY:
        memory, direct = memory.owner.operation.operands[0], False
    return memory, direct


def _is_known(op: ir.Operation) -> bool:
    """Return whether what ``op`` does to memory can be seen."""
    if op.name in _SAME_MEMORY | _SOURCES | _ASKS | _HARMLESS:
        return True
    if access_of(op) is not None:
        return True
    touched = (*op.operands, *op.results, *(a for r in op.regions for b in r.blocks for a in b.arguments))
    if any(isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType) for value in touched):
        return False
    return op.name.partition(".")[0] in _NO_MEMORY
