"""Query IR: find operations, constants, callees, element sizes, kernels and views of memory."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import prod

from mlir import ir

_KERNEL_MARKS = ("gpu.kernel", "kernel", "nvvm.kernel", "rocdl.kernel")
INDEX_BITS = 64  # on every target
GRID, BLOCK, DYNAMIC_SIZE, KERNEL_OPERANDS = (
    1,
    4,
    10,
    11,
)  # groups of operands of a gpu.launch_func, after tokens
_LOWERED_DIALECTS = frozenset({"llvm", "nvvm", "rocdl"})

# The result of these operations is the memory of their first operand, or a part of it.
VIEWS = frozenset(
    {
        "memref.cast",
        "memref.subview",
        "memref.view",
        "memref.reinterpret_cast",
        "memref.memory_space_cast",
        "memref.expand_shape",
        "memref.collapse_shape",
        "memref.transpose",
        "memref.assume_alignment",
        "builtin.unrealized_conversion_cast",  # memory of i1 as bytes: engine.legalize.booleans
    }
)
NO_ACCESS = VIEWS | {
    "memref.dim",
    "memref.get_global",
    "memref.extract_aligned_pointer_as_index",
    "memref.extract_strided_metadata",
    "vector.broadcast",
    "vector.extract",
    "vector.insert",
    "vector.fma",
    "vector.shuffle",
    "vector.reduction",
}


def operations(root: ir.Operation, names: Container[str]) -> list[ir.Operation]:
    """Return the operations inside ``root``, and ``root`` itself, whose names are in ``names``.

    Inner operations come before those around them, otherwise in the order of the text.
    """
    return matching(root, lambda op: op.name in names)


def operation_names(root: ir.Operation) -> set[str]:
    """Return the names of the operations inside ``root``, and its own."""
    found: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.add(op.name)
        return ir.WalkResult.ADVANCE

    root.walk(visit)
    return found


def matching(
    root: ir.Operation,
    wanted: Callable[[ir.Operation], bool],
    order: ir.WalkOrder = ir.WalkOrder.POST_ORDER,
) -> list[ir.Operation]:
    """Return the operations inside ``root``, and ``root`` itself, that are ``wanted``; inner ones first."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op):
            found.append(op)
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit, order)
    return found


def host_operations(module: ir.Module) -> list[ir.Operation]:
    """Return the operations of ``module`` outside of kernels, outer ones first."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.module":
            return ir.WalkResult.SKIP
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def readable(attributes: ir.OpAttributeMap, name: str) -> ir.Attribute | None:
    """Return an attribute, or ``None`` for `dense` complex numbers: the bindings have no class for them."""
    try:
        return attributes[name]
    except TypeError:
        return None


def first(root: ir.Operation, wanted: Callable[[ir.Operation], bool]) -> ir.Operation | None:
    """Return the first operation that is ``wanted``, in the order of :func:`matching`."""
    found: ir.Operation | None = None

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        if wanted(op):
            found = op
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    root.operation.walk(visit)
    return found


def enclosing(op: ir.Operation, names: Container[str]) -> ir.Operation | None:
    """Return ``op`` or the innermost operation around it whose name is in ``names``."""
    around: ir.Operation | None = op
    while around is not None and around.name not in names:
        around = around.parent.operation if around.parent is not None else None
    return around


def following(op: ir.Operation) -> ir.Operation:
    """Return the operation after ``op``, which is no terminator, in its block."""
    block = [other.operation for other in op.operation.block.operations]
    return block[block.index(op) + 1]


def terminator(block: ir.Block) -> ir.Operation:
    """Return the last operation of ``block``."""
    return block.operations[-1].operation


def launch_operands(launch: ir.Operation, group: int, groups: int = 1) -> range:
    """Return the numbers of the operands of a ``gpu.launch_func`` in one or more groups."""
    sizes = list(launch.attributes["operandSegmentSizes"])
    return range(sum(sizes[:group]), sum(sizes[: group + groups]))


def kernel_module(op: ir.Operation) -> ir.Operation:
    """Return the gpu.module around ``op``. Raises ``ValueError`` for code of the host."""
    module = enclosing(op, ("gpu.module",))
    if module is None:
        raise ValueError(f"'{op.name}' is in no gpu.module")
    return module


def defining_op(value: ir.Value) -> ir.Operation | None:
    """Return the operation that ``value`` is a result of; ``None`` for arguments of blocks."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def viewed_memory(value: ir.Value) -> ir.Value:
    """Return the memory that ``value`` is a view of, or ``value`` itself."""
    while (op := defining_op(value)) is not None and op.name in VIEWS and len(op.operands):
        value = op.operands[0]
    return value


def is_outside(value: ir.Value, root: ir.Operation) -> bool:
    """Return whether ``value`` is defined outside ``root``: neither in it, nor an argument of its blocks."""
    owner = value.owner
    op = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
    while op is not None:
        if op == root:
            return False
        op = op.parent.operation if op.parent is not None else None
    return True


def constant_integer(value: ir.Value) -> int | None:
    """Return the value of an integer, index or bool that an ``arith.constant`` defines, else ``None``."""
    op = defining_op(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    return int(ir.IntegerAttr(attribute).value) if isinstance(attribute, ir.IntegerAttr) else None


def callee(call: ir.Operation) -> str:
    """Return the name of the function that ``call`` calls; empty for calls by address."""
    if "callee" not in call.attributes:
        return ""
    return str(call.attributes["callee"].value)


def symbol_name(op: ir.Operation) -> str:
    """Return the name that ``op`` defines; empty for operations without one."""
    return str(op.attributes["sym_name"].value) if "sym_name" in op.attributes else ""


def element_type(kind: ir.Type) -> ir.Type:
    """Return the type of the elements of a vector, tensor or memref; other types are returned unchanged."""
    return ir.ShapedType(kind).element_type if isinstance(kind, ir.ShapedType) else kind


def shaped_like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """Return ``element``, as a vector of the shape of ``kind`` if that is a vector."""
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element


def is_contiguous(kind: ir.MemRefType) -> bool:
    """Return whether the elements of a memref follow each other in row-major order from its start."""
    return bool(kind.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank)))


def strides_and_offset(kind: ir.MemRefType) -> tuple[list[int], int] | None:
    """Return the strides and the offset of a memref; ``None`` for other layouts."""
    try:
        strides, offset = kind.get_strides_and_offset()
    except RuntimeError:
        return None
    return strides, offset


def scalar_bits(kind: ir.Type) -> int:
    """Return the width of an integer, float or index as a value; 0 for other types, vectors too."""
    if isinstance(kind, ir.IndexType):
        return INDEX_BITS
    return int(kind.width) if isinstance(kind, ir.IntegerType | ir.FloatType) else 0


def element_bytes(kind: ir.Type) -> int | None:
    """Return the distance of two elements of ``kind`` in memory in LLVM's layout, ``None`` if unknown.

    LLVM packs the elements of a vector bit by bit, and pads the last dimension to a power of two.
    """
    if isinstance(kind, ir.ComplexType):
        part = element_bytes(kind.element_type)
        return None if part is None else 2 * part
    if not isinstance(kind, ir.VectorType):
        bits = scalar_bits(kind)
        return _padded_bytes(bits) if bits else None
    bits = scalar_bits(kind.element_type)
    if not bits or any(kind.scalable_dims):
        return None
    outer, last = kind.shape[:-1], kind.shape[-1] if kind.rank else 1
    return int(prod(outer)) * _padded_bytes(last * bits)


def _padded_bytes(bits: int) -> int:
    return 1 << ((bits + 7) // 8 - 1).bit_length()


def kernel_functions(module: ir.Operation) -> list[ir.Operation]:
    """Return the functions of a gpu.module that can be launched, in order."""
    functions = [op.operation for op in module.regions[0].blocks[0]]
    return [op for op in functions if op.name in {"gpu.func", "llvm.func"} and is_kernel(op)]


def is_kernel(function: ir.Operation) -> bool:
    """Return whether launches can run ``function``."""
    return any(mark in function.attributes for mark in _KERNEL_MARKS)


def is_reached_by_all(op: ir.Operation) -> bool:
    """Return whether all work-items reach ``op``: code of a kernel itself, outside of branches and loops."""
    function = op.parent.operation
    return is_kernel(function) and bool(op.block == function.regions[0].blocks[0])


def attributions(function: ir.Operation) -> tuple[list[ir.BlockArgument], list[ir.BlockArgument]]:
    """Return the workgroup memory and the private memory that a ``gpu.func`` with a body declares."""
    count = len(function.attributes["function_type"].value.inputs)
    memory = list(function.regions[0].blocks[0].arguments)[count:]
    name = "workgroup_attributions"
    shared = function.attributes[name].value if name in function.attributes else 0
    return memory[:shared], memory[shared:]


def module_dialect(module: ir.Operation) -> str:
    """Return ``gpu``, or the dialect that a gpu.module is lowered to: ``nvvm``, ``rocdl`` or ``llvm``."""
    dialects: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialects.add("gpu" if op.name == "gpu.func" else op.name.partition(".")[0])
        for mark in ("nvvm", "rocdl"):
            if f"{mark}.kernel" in op.attributes:
                dialects.add(mark)
        return ir.WalkResult.INTERRUPT if dialects - _LOWERED_DIALECTS else ir.WalkResult.ADVANCE

    for op in module.regions[0].blocks[0]:
        op.operation.walk(visit)
    if not dialects or dialects - _LOWERED_DIALECTS:
        return "gpu"
    lowered = dialects - {"llvm"}
    return lowered.pop() if len(lowered) == 1 else "llvm"
