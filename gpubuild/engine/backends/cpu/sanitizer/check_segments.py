"""Check segments: which ops of a kernel may run between the same two barriers."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations
from gpubuild.engine.backends.cpu.sanitizer.check_range import constant_of

MEETINGS = frozenset({"gpu.barrier", "gpu.all_reduce"})  # they order all that the workgroup did before
_SUBGROUP_WAIT = "nvvm.bar.warp.sync"  # also what engine.legalize.matrices makes lanes wait with
_ALL_LANES = {-1, (1 << image_layout.SUBGROUP) - 1}


def orders_subgroup(op: ir.Operation) -> bool:
    """Whether all lanes of a subgroup wait at ``op``: what they do before it and behind it is in order."""
    return op.name == _SUBGROUP_WAIT and constant_of(op.operands[0]) in _ALL_LANES


class Segments:
    """Two ops of different numbers never run between the same two barriers.

    All work-items of a workgroup wait at the same barriers, or the barrier is what is reported. What the
    paths from one barrier to the next may run is taken together, whichever path it is.
    """

    def __init__(self, entry: ir.Block) -> None:
        self._parents = [0]
        self._numbers: dict[ir.Operation, int] = {}
        self._around = _around_meetings(entry)
        self._walk(entry, 0)

    def of(self, op: ir.Operation) -> int:
        """The number of an op's segment."""
        return self._find(self._numbers[op])

    def _find(self, number: int) -> int:
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    def _join(self, a: int, b: int) -> None:
        self._parents[self._find(a)] = self._find(b)

    def _walk(self, block: ir.Block, number: int) -> int:
        """Number what is in ``block``, which begins in segment ``number``; gives back the one it ends in."""
        for op in operations(block):
            self._numbers[op] = number
            if op.name in MEETINGS:
                self._parents.append(len(self._parents))
                number = len(self._parents) - 1
            elif op in self._around:
                self._branch(op, number)
            else:
                self._numbers.update((inner, number) for inner in nested(op))
        return number

    def _branch(self, op: ir.Operation, number: int) -> None:
        """Any path through ``op`` may follow any other, and none may be taken."""
        for region in op.regions:
            for block in region.blocks:
                self._join(self._walk(block, number), number)


def _around_meetings(entry: ir.Block) -> set[ir.Operation]:
    found: set[ir.Operation] = set()
    for top in operations(entry):
        for op in nested(top):
            around = op.parent.operation
            while op.name in MEETINGS and around != entry.owner.operation:
                found.add(around)
                around = around.parent.operation
    return found
