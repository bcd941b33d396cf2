"""Find values of a kernel that are the same for all work-items of a workgroup, and queries of its code.

Works on the gpu, scf and arith dialects, on functions without branches between blocks. A value that is not
known to be uniform counts as varying.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.ir.passes import rewrite_each
from gpubuild.engine.ir.query import NO_ACCESS, callee

POSITIONS = frozenset({"gpu.thread_id", "gpu.global_id"})
ITEM_IDS = POSITIONS | {"gpu.lane_id"}
# A subgroup that waits in uniform control flow may wait for its whole workgroup instead.
BARRIERS = frozenset({"gpu.barrier", "nvvm.bar.warp.sync"})
WAITS_FOR = "gpubuild.for"  # on a barrier: the op of the source that it stands for
COLLECTIVE_OPS = BARRIERS | {"gpu.all_reduce"}  # all work-items of a workgroup meet there
WORKGROUP_BARRIERS = frozenset({"gpu.barrier", "gpu.all_reduce"})  # which all of a workgroup must reach
VERSIONED = "gpubuild.versioned"  # on an scf.if: all work-items take the same branch, each a whole kernel
GROUP_IDS = frozenset(
    {
        "gpu.block_id",
        "gpu.block_dim",
        "gpu.grid_dim",
        "gpu.cluster_id",
        "gpu.cluster_dim",
        "gpu.cluster_dim_blocks",
        "gpu.cluster_block_id",
        "gpu.subgroup_size",
        "gpu.num_subgroups",
        "gpu.dynamic_shared_memory",
    }
)
_CONDITIONAL = frozenset({"scf.if", "scf.while"})
_PURE_DIALECTS = frozenset({"arith", "index", "math", "complex"})
_PURE = GROUP_IDS | NO_ACCESS | {"affine.apply", "ub.poison"}


def nested(op: ir.Operation, order: ir.WalkOrder = ir.WalkOrder.POST_ORDER) -> list[ir.Operation]:
    """Return ``op`` and everything inside it."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner.operation)
        return ir.WalkResult.ADVANCE

    op.walk(visit, order)
    return found


def operations(block: ir.Block) -> Iterator[ir.Operation]:
    """Return the ops of a block, as plain operations."""
    for op in block.operations:
        yield op.operation


def named(root: ir.Operation, names: Collection[str]) -> list[ir.Operation]:
    """Return ``root`` and the operations inside it, if of these names, without a walk in Python."""
    found: list[ir.Operation] = []
    rewrite_each(root, dict.fromkeys(names, found.append))
    return [*found, root] if root.name in names else found


def all_operations(function: ir.Operation) -> list[ir.Operation]:
    """Return all operations in the first block of a function, and those inside them."""
    return [inner for op in operations(function.regions[0].blocks[0]) for inner in nested(op)]


def defined_values(op: ir.Operation) -> list[ir.Value]:
    """Return the results of ``op`` and the arguments of its blocks."""
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    return [*op.results, *arguments]


def body_operations(block: ir.Block) -> list[ir.Operation]:
    """Return the ops of a block without its terminator."""
    return list(operations(block))[:-1]


def ancestor_in(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """Return the operation of ``block`` that is ``op`` or contains it."""
    while op.block != block:
        op = op.parent.operation
    return op


def axis_of(op: ir.Operation) -> str:
    """Return the axis, such as "x", of an operation with a dimension."""
    return str(op.attributes["dimension"]).removeprefix("#gpu<dim ")[0]


def is_id(op: ir.Operation, axis: str) -> bool:
    """Return whether ``op`` is the work-item's position on ``axis``, in its workgroup or in the grid."""
    return op.name in POSITIONS and axis_of(op) == axis


def is_pure(op: ir.Operation) -> bool:
    """Return whether ``op`` computes its results from its operands alone, and may be repeated."""
    if len(op.regions) or not len(op.results):
        return False
    return op.name in _PURE or op.name.partition(".")[0] in _PURE_DIALECTS or is_variable(op)


def is_variable(op: ir.Operation) -> bool:
    """Return whether ``op`` is the address of a variable that all work-items of all workgroups share."""
    return op.name == "memref.get_global" and ir.MemRefType(op.results[0].type).memory_space is None


def collective_ops(ops: list[ir.Operation], function: ir.Operation) -> set[ir.Operation]:
    """Return the collective operations among ``ops``, such as barriers, and all around them."""
    found: set[ir.Operation] = set()
    for op in ops:
        around = op
        together = op.name in COLLECTIVE_OPS or VERSIONED in op.attributes
        while together and around != function:
            found.add(around)
            around = around.parent.operation
    return found


def reaches_workgroup_barrier(block: ir.Block) -> bool:
    """Return whether every path through ``block`` reaches an operation that needs the whole workgroup."""
    return any(_always_reaches(op) for op in operations(block))


def _always_reaches(op: ir.Operation) -> bool:
    if op.name in WORKGROUP_BARRIERS:
        return True
    blocks = _blocks(op)
    if op.name == "scf.if":
        return len(blocks) == 2 and all(map(reaches_workgroup_barrier, blocks))
    return op.name == "scf.while" and reaches_workgroup_barrier(blocks[0])


def must_agree(op: ir.Operation) -> bool:
    """Return whether the condition of an ``scf.if`` or ``scf.while`` must be the same for all of a workgroup.

    It must when some work-items would wait in it for the others. Fissioned code checks it at run time.
    """
    return op.name in _CONDITIONAL and any(map(reaches_workgroup_barrier, _blocks(op)))


def has_versions(function: ir.Operation) -> bool:
    """Return whether the function has two versions of its code, of which a workgroup runs one."""
    return any(VERSIONED in op.attributes for op in operations(function.regions[0].blocks[0]))


def is_barrier_report(op: ir.Operation) -> bool:
    """Return whether ``op`` reports that the workgroup has passed a barrier, once for all work-items."""
    return op.name == "func.call" and callee(op) == image_layout.CHECK_MEET


class Uniformity:
    """The uniform values of one function; ``collective`` is the result of :func:`collective_ops`.

    All values start as uniform, and varying ones are removed until nothing changes. So a value carried
    around a loop stays uniform when its first and its next values are.
    """

    def __init__(self, entry: ir.Block, collective: set[ir.Operation]) -> None:
        self._collective = collective
        self._varying: set[ir.Value] = set()
        before = -1
        while before != len(self._varying):
            before = len(self._varying)
            self._block(entry)

    def uniform(self, value: ir.Value) -> bool:
        """Return whether all work-items that compute ``value`` together get the same."""
        return value not in self._varying

    def _block(self, block: ir.Block) -> None:
        for op in operations(block):
            if op.name in COLLECTIVE_OPS:
                continue  # the result of all_reduce is uniform
            if op in self._collective:
                self._structured(op)
            elif op.name in ITEM_IDS or not is_pure(op) or not all(map(self.uniform, op.operands)):
                self._varying.update(op.results)

    def _structured(self, op: ir.Operation) -> None:
        blocks = _blocks(op)
        for block in blocks:
            self._block(block)
        if op.name == "scf.for":
            body = blocks[0]
            if not all(map(self.uniform, list(op.operands)[:3])):
                self._varying.update((*body.arguments, *op.results))
            arguments = list(body.arguments)[1:]
            initial = list(op.operands)[3:]
            for first, argument, following, result in zip(
                initial, arguments, _yielded(body), op.results, strict=True
            ):
                if not (self.uniform(first) and self.uniform(following)):
                    self._varying.update((argument, result))
        elif op.name == "scf.if":
            branches = [_yielded(block) for block in blocks]
            together = must_agree(op) or self.uniform(op.operands[0])
            for number, result in enumerate(op.results):
                if not (together and all(self.uniform(b[number]) for b in branches)):
                    self._varying.add(result)
        elif op.name == "scf.while":
            self._while(op, *blocks)
        else:
            self._varying.update(op.results)

    def _while(self, op: ir.Operation, before: ir.Block, after: ir.Block) -> None:
        condition, *passed = _yielded(before)
        if not (must_agree(op) or self.uniform(condition)):
            self._varying.update((*before.arguments, *after.arguments, *op.results))
        for first, argument, following in zip(op.operands, before.arguments, _yielded(after), strict=True):
            if not (self.uniform(first) and self.uniform(following)):
                self._varying.add(argument)
        for value, argument, result in zip(passed, after.arguments, op.results, strict=True):
            if not self.uniform(value):
                self._varying.update((argument, result))


def terminator(block: ir.Block) -> ir.Operation:
    """Return the last op of a block."""
    return block.operations[-1].operation


def _blocks(op: ir.Operation) -> list[ir.Block]:
    return [region.blocks[0] for region in op.regions if len(region.blocks)]


def _yielded(block: ir.Block) -> list[ir.Value]:
    return list(terminator(block).operands)
