"""Check memory: which accesses of a kernel are to the same memory, where all of them are known."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import GROUP_IDS, GROUP_OPS, ITEM_IDS, nested
from gpubuild.engine.backends.cpu.sanitizer.check_access import WORKGROUP_SPACES, Access, access_of
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
    """Whether anything but a read is among the accesses."""
    return memory.modes != {image_layout.CHECK_READ}


def _root(memory: ir.Value) -> tuple[ir.Value, bool]:
    direct = True
    while not isinstance(memory.owner, ir.Block) and memory.owner.operation.name in _SAME_MEMORY:
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
