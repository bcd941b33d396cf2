"""Uniformity: which values of a kernel are the same for all work-items of a workgroup.

Works on the gpu, scf and arith dialects, on functions without branches between blocks. What is not
known to be uniform counts as varying.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

ITEM_IDS = frozenset({"gpu.thread_id", "gpu.global_id", "gpu.lane_id"})
# A subgroup that waits in uniform control flow may as well wait for all of its workgroup.
BARRIERS = frozenset({"gpu.barrier", "nvvm.bar.warp.sync"})
WAITS_FOR = "gpubuild.for"  # on a barrier: the op of the source that it stands for
GROUP_OPS = BARRIERS | {"gpu.all_reduce"}  # all work-items of a workgroup meet there
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
    }
)
_PURE_DIALECTS = frozenset({"arith", "index", "math", "complex"})
_PURE = (
    GROUP_IDS
    | VIEWS
    | {
        "memref.dim",
        "memref.get_global",
        "memref.extract_aligned_pointer_as_index",
        "memref.extract_strided_metadata",
        "affine.apply",
        "ub.poison",
        "vector.broadcast",
        "vector.extract",
        "vector.insert",
        "vector.fma",
        "vector.shuffle",
        "vector.reduction",
    }
)


def nested(op: ir.Operation) -> list[ir.Operation]:
    """``op`` and everything inside it."""
    found: list[ir.Operation] = []

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.append(inner.operation)
        return ir.WalkResult.ADVANCE

    op.walk(visit)
    return found


def operations(block: ir.Block) -> Iterator[ir.Operation]:
    """The ops of a block, as plain operations."""
    for op in block.operations:
        yield op.operation


def is_pure(op: ir.Operation) -> bool:
    """Whether ``op`` computes its results from its operands alone, and may be repeated."""
    if len(op.regions) or not len(op.results):
        return False
    return op.name in _PURE or op.name.partition(".")[0] in _PURE_DIALECTS


def ancestors_of_group_ops(inside: list[ir.Operation], function: ir.Operation) -> set[ir.Operation]:
    """The ops where all work-items meet, and everything around them in the function."""
    found: set[ir.Operation] = set()
    for op in inside:
        around = op
        while op.name in GROUP_OPS and around != function:
            found.add(around)
            around = around.parent.operation
    return found


class Uniformity:
    """The answer for one function; ``meets`` are the ops that are or hold a GROUP_OP.

    Values start as uniform, and those that cannot be are taken out until nothing changes: so a
    value carried around a loop stays uniform when it is initialised and continued uniformly.
    """

    def __init__(self, entry: ir.Block, meets: set[ir.Operation]) -> None:
        self._meets = meets
        self._varying: set[ir.Value] = set()
        before = -1
        while before != len(self._varying):
            before = len(self._varying)
            self._block(entry)

    def uniform(self, value: ir.Value) -> bool:
        """Whether all work-items that compute ``value`` together get the same."""
        return value not in self._varying

    def _block(self, block: ir.Block) -> None:
        for op in operations(block):
            if op.name in GROUP_OPS:
                continue  # what all_reduce gives back is the same for all
            if op in self._meets:
                self._structured(op)
            elif op.name in ITEM_IDS or not is_pure(op) or not all(map(self.uniform, op.operands)):
                self._varying.update(op.results)

    def _structured(self, op: ir.Operation) -> None:
        blocks = [region.blocks[0] for region in op.regions if len(region.blocks)]
        for block in blocks:
            self._block(block)
        if op.name == "scf.for":
            body = blocks[0]
            arguments = list(body.arguments)[1:]
            initial = list(op.operands)[3:]
            for first, argument, following, result in zip(
                initial, arguments, _yielded(body), op.results, strict=True
            ):
                if not (self.uniform(first) and self.uniform(following)):
                    self._varying.update((argument, result))
        elif op.name == "scf.if":
            branches = [_yielded(block) for block in blocks]
            for number, result in enumerate(op.results):
                if not all(self.uniform(v) for v in (op.operands[0], *(b[number] for b in branches))):
                    self._varying.add(result)
        else:
            self._varying.update(op.results)


def terminator(block: ir.Block) -> ir.Operation:
    """The last op of a block."""
    return block.operations[len(block.operations) - 1].operation


def _yielded(block: ir.Block) -> list[ir.Value]:
    return list(terminator(block).operands)
