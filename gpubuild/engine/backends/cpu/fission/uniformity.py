"""Uniformity: which values of a kernel are the same for all work-items of a workgroup.

Works on the gpu, scf and arith dialects, on functions without branches between blocks. What is not
known to be uniform counts as varying.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.ir.query import NO_ACCESS

ITEM_IDS = frozenset({"gpu.thread_id", "gpu.global_id", "gpu.lane_id"})
# A subgroup that waits in uniform control flow may as well wait for all of its workgroup.
BARRIERS = frozenset({"gpu.barrier", "nvvm.bar.warp.sync"})
WAITS_FOR = "gpubuild.for"  # on a barrier: the op of the source that it stands for
COLLECTIVE_OPS = BARRIERS | {"gpu.all_reduce"}  # all work-items of a workgroup meet there
WORKGROUP_BARRIERS = frozenset({"gpu.barrier", "gpu.all_reduce"})  # where it is wrong that only some come
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


def is_pure(op: ir.Operation) -> bool:
    """Return whether ``op`` computes its results from its operands alone, and may be repeated."""
    if len(op.regions) or not len(op.results):
        return False
    return op.name in _PURE or op.name.partition(".")[0] in _PURE_DIALECTS


def collective_ops(inside: list[ir.Operation], function: ir.Operation) -> set[ir.Operation]:
    """Return the collective operations, such as barriers, and all around them in the function."""
    found: set[ir.Operation] = set()
    for op in inside:
        around = op
        together = op.name in COLLECTIVE_OPS or VERSIONED in op.attributes
        while together and around != function:
            found.add(around)
            around = around.parent.operation
    return found


def reaches_workgroup_barrier(block: ir.Block) -> bool:
    """Return whether all that runs ``block`` comes to an operation that needs the whole workgroup."""
    return any(_always_reaches(op) for op in operations(block))


def _always_reaches(op: ir.Operation) -> bool:
    if op.name in WORKGROUP_BARRIERS:
        return True
    blocks = _blocks(op)
    if op.name == "scf.if":
        return len(blocks) == 2 and all(map(reaches_workgroup_barrier, blocks))
    return op.name == "scf.while" and reaches_workgroup_barrier(blocks[0])


def must_agree(op: ir.Operation) -> bool:
    """Whether the condition of an ``scf.if`` or ``scf.while`` has to be the same for all of a workgroup.

    That is so when some of them would wait for the others in it. Fissioned code sees to it at run time.
    """
    return op.name in _CONDITIONAL and any(map(reaches_workgroup_barrier, _blocks(op)))


def has_versions(function: ir.Operation) -> bool:
    """Return whether the function has two versions, of which a workgroup runs one."""
    return any(VERSIONED in op.attributes for op in operations(function.regions[0].blocks[0]))


def is_barrier_report(op: ir.Operation) -> bool:
    """Return whether ``op`` reports that the workgroup has passed a barrier, once for all work-items."""
    if op.name != "func.call":
        return False
    return bool(ir.FlatSymbolRefAttr(op.attributes["callee"]).value == image_layout.CHECK_MEET)


class Uniformity:
    """The uniform values of one function; ``collective`` as :func:`collective_ops` gives it.

    Values start as uniform, and those that cannot be are taken out until nothing changes: so a
    value carried around a loop stays uniform when it is initialised and continued uniformly.
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
                continue  # what all_reduce gives back is the same for all
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
    return block.operations[len(block.operations) - 1].operation


def _blocks(op: ir.Operation) -> list[ir.Block]:
    return [region.blocks[0] for region in op.regions if len(region.blocks)]


def _yielded(block: ir.Block) -> list[ir.Value]:
    return list(terminator(block).operands)
