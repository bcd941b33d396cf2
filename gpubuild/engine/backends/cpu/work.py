"""Work: floating-point operations and bytes of global memory of a work-item, counted in a kernel's IR.

For the roofline of ``GPUBUILD_PROFILE`` (docs/runtime.md). What is counted, and what is taken for granted:

* additions, subtractions, multiplications, divisions, minima, maxima, negations and each function of ``math``
  are one operation an element, a fused multiply-add is two; conversions and comparisons are none;
* loads and stores of memory that is neither of the workgroup nor private count their bytes, each time,
  whatever caches do; an atomic update counts both ways;
* every ``scf.if`` is taken, by its dearer branch, but not one for a single work-item of a workgroup;
* loops run as often as constant bounds say. With other bounds, or in code without structure, the number is
  unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir.query import VIEWS

_ONE = frozenset(
    f"arith.{name}"
    for name in (
        "addf", "subf", "mulf", "divf", "remf", "negf", "maximumf", "minimumf", "maxnumf", "minnumf",
    )
)  # fmt: skip
_NO_FLOPS = frozenset({"math.ipowi", "math.absi", "math.ctlz", "math.cttz", "math.ctpop"})
_FUSED = frozenset({"math.fma", "vector.fma"})
_LOADS = frozenset(
    {"memref.load", "vector.load", "vector.maskedload", "vector.gather", "vector.transfer_read"}
)
_STORES = frozenset(
    {"memref.store", "vector.store", "vector.maskedstore", "vector.scatter", "vector.transfer_write"}
)
_UPDATES = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})
_NOT_GLOBAL = frozenset(
    {"#gpu.address_space<workgroup>", "#gpu.address_space<private>", "3 : i64", "5 : i64", "3", "5"}
)
_UNKNOWN = (
    "gpu.subgroup_mma",
    "nvgpu.",
    "nvvm.",
    "amdgpu.",
    "rocdl.",
    "llvm.",
    "func.call",
    "gpu.call",
    "cf.",
)
_UNKNOWN_OPS = frozenset({"memref.copy", "gpu.all_reduce", "gpu.memcpy", "gpu.memset", "memref.dma_start"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Of one work-item; ``None``: it cannot be told."""

    flops: int | None = 0
    bytes: int | None = 0

    def __add__(self, other: Work) -> Work:
        return Work(flops=_sum(self.flops, other.flops), bytes=_sum(self.bytes, other.bytes))

    def times(self, count: int | None) -> Work:
        """``count`` times as much; ``None``: unknown, where there is anything."""
        return Work(flops=_product(self.flops, count), bytes=_product(self.bytes, count))

    def or_more(self, other: Work) -> Work:
        """The greater of both."""
        return Work(
            flops=None if self.flops is None or other.flops is None else max(self.flops, other.flops),
            bytes=None if self.bytes is None or other.bytes is None else max(self.bytes, other.bytes),
        )


UNKNOWN = Work(flops=None, bytes=None)


def kernel_work(module: ir.Operation) -> dict[str, Work]:
    """The work of each kernel of a gpu.module in the gpu, scf, memref, vector, arith and math dialects."""
    found = {}
    for op in module.regions[0].blocks[0].operations:
        function = op.operation
        if function.name == "gpu.func" and "gpu.kernel" in function.attributes:
            name = ir.StringAttr(function.attributes["sym_name"]).value
            found[name] = _region(function.regions[0])
    return found


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _product(value: int | None, count: int | None) -> int | None:
    if value == 0 or count == 0:
        return 0
    return None if value is None or count is None else value * count


def _region(region: ir.Region) -> Work:
    total = Work()
    for block in region.blocks:
        for op in block.operations:
            total += _operation(op.operation)
    if len(region.blocks) > 1:  # how often each block runs depends on branches
        return total.times(None)
    return total


def _operation(op: ir.Operation) -> Work:
    name = op.name
    if name == "scf.for":
        return _region(op.regions[0]).times(_trips(op))
    if name == "scf.if":
        taken = [_region(region) for region in op.regions if len(region.blocks)]
        if _single_item(op.operands[0]):
            return taken[1] if len(taken) > 1 else Work()
        return taken[0].or_more(taken[1]) if len(taken) > 1 else taken[0]
    if name in _UPDATES:
        return Work(flops=_flops_of_update(op), bytes=2 * _traffic(op, op.results[0].type))
    if len(op.regions):
        return sum((_region(region) for region in op.regions), Work()).times(None)
    if name in _LOADS:
        return Work(bytes=_traffic(op, op.results[0].type))
    if name in _STORES:
        return Work(bytes=_traffic(op, _stored(op).type))
    if name in _UNKNOWN_OPS or name.startswith(_UNKNOWN):
        return UNKNOWN
    return Work(flops=_flops(op))


def _flops(op: ir.Operation) -> int:
    if op.name in _FUSED:
        return 2 * _elements(op.results[0].type)
    if op.name in _ONE or (op.name.startswith("math.") and op.name not in _NO_FLOPS):
        return _elements(op.results[0].type)
    return 0


def _flops_of_update(op: ir.Operation) -> int:
    return 0 if isinstance(op.results[0].type, ir.IntegerType | ir.IndexType) else 1


def _elements(kind: ir.Type) -> int:
    if not isinstance(kind, ir.VectorType):
        return 1
    count = 1
    for extent in ir.VectorType(kind).shape:
        count *= extent
    return count


def _bytes(kind: ir.Type) -> int:
    """As it lies in memory; i1 and other odd widths take whole bytes."""
    element = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
    if isinstance(element, ir.ComplexType):
        return 2 * _bytes(ir.ComplexType(element).element_type)
    bits = 64
    if isinstance(element, ir.IntegerType):
        bits = ir.IntegerType(element).width
    elif isinstance(element, ir.FloatType):
        bits = ir.FloatType(element).width
    return _elements(kind) * ((bits + 7) // 8)


def _memory(op: ir.Operation) -> ir.Value:
    """The memref that an access goes to."""
    return next(o for o in op.operands if isinstance(o.type, ir.MemRefType))


def _stored(op: ir.Operation) -> ir.Value:
    """The value that a store takes: the first operand of most, the last of masked ones."""
    last = op.name in ("vector.maskedstore", "vector.scatter")
    return op.operands[len(op.operands) - 1] if last else op.operands[0]


def _traffic(op: ir.Operation, kind: ir.Type) -> int:
    return _bytes(kind) if _is_global(_memory(op)) else 0


def _is_global(memory: ir.Value) -> bool:
    while True:
        if str(ir.MemRefType(memory.type).memory_space) in _NOT_GLOBAL:
            return False
        if isinstance(memory.owner, ir.Block):
            return True
        owner = memory.owner.operation
        if owner.name not in VIEWS or not len(owner.operands):
            return owner.name not in ("memref.alloca", "gpu.dynamic_shared_memory")
        memory = owner.operands[0]
        if not isinstance(memory.type, ir.MemRefType):
            return True


def _constant(value: ir.Value) -> int | None:
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None


def _trips(loop: ir.Operation) -> int | None:
    low, high, step = (_constant(loop.operands[i]) for i in range(3))
    if low is None or high is None or step is None or step <= 0:
        return None
    return max(0, -((low - high) // step))


def _single_item(condition: ir.Value) -> bool:
    """Whether it is ``thread_id == constant``: what one work-item does for its workgroup."""
    if isinstance(condition.owner, ir.Block):
        return False
    compare = condition.owner.operation
    if compare.name != "arith.cmpi" or ir.IntegerAttr(compare.attributes["predicate"]).value != 0:
        return False
    item, constant = compare.operands[0], compare.operands[1]
    return (
        _constant(constant) is not None
        and not isinstance(item.owner, ir.Block)
        and item.owner.operation.name == "gpu.thread_id"
    )
