"""Proofs that the accesses of a kernel cannot race.

Three facts are used. All work-items of a workgroup wait at the same barriers, so that accesses in different
segments, the parts between two barriers, do not meet. Accesses whose indices follow the identity-index rule
do not meet. And in reductions in workgroup memory the lower work-items take what the upper half holds:

    if t < n: s[t] = s[t] + s[t + n]

Below ``n`` there are only writes, each by its work-item, and from ``n`` on there are only reads. That holds
if ``n`` is the same for all work-items between the same two barriers: a constant, or a number that each
iteration of a loop computes from the one before, with a barrier in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations, terminator
from gpubuild.engine.backends.cpu.sanitizer.accesses import (
    Memory,
    Use,
    is_contiguous,
    whole_memory,
    writes,
)
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import Owners, Proof, number_of
from gpubuild.engine.backends.cpu.sanitizer.ranges import Truth
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, element_bytes

COLLECTIVES = frozenset({"gpu.barrier", "gpu.all_reduce"})  # they order all that the workgroup did before
_SUBGROUP_WAIT = "nvvm.bar.warp.sync"  # also what engine.legalize.matrices makes lanes wait with
_ALL_LANES = {-1, (1 << image_layout.SUBGROUP) - 1}
_STEPS = frozenset({"arith.shrui", "arith.divui", "arith.muli", "arith.addi", "arith.subi", "arith.shli"})


def orders_subgroup(op: ir.Operation) -> bool:
    """Whether all lanes of a subgroup wait at ``op``: what they do before it and behind it is in order."""
    return op.name == _SUBGROUP_WAIT and constant_integer(op.operands[0]) in _ALL_LANES


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
        """Return the number of an op's segment."""
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
            if op.name in COLLECTIVES:
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
            while op.name in COLLECTIVES and around != entry.owner.operation:
                found.add(around)
                around = around.parent.operation
    return found


class Races:
    """Proofs for one kernel all of whose accesses are known and in bounds."""

    def __init__(self, kernel: ir.Operation, emit: Emitter, owners: Owners, found: list[Memory]) -> None:
        self._emit = emit
        self._owners = owners
        self._found = found
        self._segments = Segments(kernel.regions[0].blocks[0])
        self._extents: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def proofs(self) -> Iterator[Proof]:
        """Accesses that cannot race, and the conditions for that."""
        for memory in self._found:
            yield from self._workgroup_memory(memory) if memory.in_workgroup else self._global_memory(memory)

    def _workgroup_memory(self, memory: Memory) -> Iterator[Proof]:
        segments: dict[int, list[Use]] = {}
        for use in memory.uses:
            segments.setdefault(self._segments.of(use.op), []).append(use)
        for uses in segments.values():
            apart = self._apart(uses, launch=False)
            if apart is not None:
                yield uses, apart

    def _global_memory(self, memory: Memory) -> Iterator[Proof]:
        apart = self._apart(memory.uses, launch=True)
        if apart is None or (not memory.argument and writes(memory)):
            return
        conditions = list(apart)
        for other in self._found:
            if other is memory or not (memory.argument and other.argument):
                continue
            if writes(memory) or writes(other):
                disjoint = self._disjoint(memory, other)
                if disjoint is None:
                    return
                conditions.append(disjoint)
        yield memory.uses, conditions

    def _apart(self, uses: Sequence[Use], *, launch: bool) -> list[Truth] | None:
        modes = {use.access.mode for use in uses}
        if modes in ({image_layout.CHECK_READ}, {image_layout.CHECK_ATOMIC}):
            return []
        if not all(use.direct and is_contiguous(use.access.memory.type) for use in uses):
            return None
        if launch:
            return self._owners.apart(uses, launch=True)
        left, conditions = _without_upper_halves(uses, self._owners)
        apart = self._owners.apart(left, launch=False)
        return None if apart is None else [*conditions, *apart]

    def _disjoint(self, a: Memory, b: Memory) -> Truth | None:
        """Return whether two arguments have no memory in common: the same may be passed twice."""
        ends = [self._extent(memory) for memory in (a, b)]
        if ends[0] is None or ends[1] is None:
            return None
        n = self._owners.ranges.numbers
        (a_first, a_end), (b_first, b_end) = ends[0], ends[1]
        return n.either(n.at_most(a_end, b_first), n.at_most(b_end, a_first))

    def _extent(self, memory: Memory) -> tuple[ir.Value, ir.Value] | None:
        """Return the addresses of the first byte and of that behind the last one."""
        kind = ir.MemRefType(memory.root.type)
        bytes_each = element_bytes(kind.element_type)
        if bytes_each is None or not is_contiguous(kind):
            return None
        if memory.root not in self._extents:
            first, bytes_ = whole_memory(self._emit, memory.root, bytes_each)
            self._extents[memory.root] = first, self._emit.binary("arith.addi", first, bytes_)
        return self._extents[memory.root]


def _without_upper_halves(uses: Sequence[Use], owners: Owners) -> tuple[list[Use], list[Truth]]:
    """The uses among which work-items may still meet, and what must hold for the others not to matter."""
    kept, conditions = list(uses), []
    if not all(use.direct and len(use.access.indices) == 1 and use.access.count == 1 for use in uses):
        return kept, []
    for use in uses:
        if use.access.mode != image_layout.CHECK_READ or use.access.masked:
            continue
        found = _is_above(use, uses, owners)
        if found is None:
            found = _is_first(use, uses, owners)
        if found is not None:
            kept.remove(use)
            conditions += found
    return kept, conditions


def _is_above(use: Use, uses: Sequence[Use], owners: Owners) -> list[Truth] | None:
    """Return whether ``use`` reads at ``x + n``, and all writes are below that ``n``."""
    index = use.access.indices[0]
    if isinstance(index.owner, ir.Block) or index.owner.operation.name != "arith.addi":
        return None
    writers = [other for other in uses if other.access.mode != image_layout.CHECK_READ]
    facts = owners.ranges.facts_at(use.op)
    left, right = index.owner.operation.operands
    for start, limit in ((left, right), (right, left)):
        ranges = [owners.ranges.of(value, facts) for value in (index, start, limit)]
        if any(r is None or not isinstance(r.low, int) or r.low < 0 for r in ranges):
            continue
        if not all(_is_guarded(other, limit) for other in writers):
            continue
        if _is_same_for_all(limit, [use, *writers]):
            return [condition for r in ranges if r is not None for condition in r.given]
    return None


def _is_guarded(use: Use, limit: ir.Value) -> bool:
    """Return whether ``use`` is made only where its index is less than ``limit``."""
    index, block = use.access.indices[0], use.op.operation.block
    while block.owner.operation.name != "gpu.func":
        owner = block.owner.operation
        if owner.name == "scf.if" and owner.regions[0].blocks[0] == block:
            condition = owner.operands[0]
            compare = None if isinstance(condition.owner, ir.Block) else condition.owner.operation
            if (
                compare is not None
                and compare.name == "arith.cmpi"
                and ir.IntegerAttr(compare.attributes["predicate"]).value == Compare.ULT
                and list(compare.operands) == [index, limit]
            ):
                return True
        block = owner.block
    return False


def _is_same_for_all(limit: ir.Value, uses: Sequence[Use]) -> bool:
    """Return whether work-items between the same two barriers have the same ``limit`` at the uses."""
    if constant_integer(limit) is not None:
        return True
    if not isinstance(limit.owner, ir.Block) or limit.owner.owner.operation.name != "scf.for":
        return False
    loop, body = limit.owner.owner.operation, limit.owner
    number = list(body.arguments).index(limit)
    meetings = [op for op in nested(loop) if op.name in COLLECTIVES]
    starts = [*list(loop.operands)[:3], loop.operands[2 + number]]
    if number == 0 or not meetings or any(constant_integer(value) is None for value in starts):
        return False
    # All iterations have the same barriers, and a constant number of them: work-items that passed as many
    # barriers is in the same iteration.
    if any(op.parent.operation != loop for op in meetings):
        return False
    following = terminator(body).operands[number - 1]
    if isinstance(following.owner, ir.Block) or following.owner.operation.name not in _STEPS:
        return False
    step = following.owner.operation
    if step.operands[0] != limit or constant_integer(step.operands[1]) is None:
        return False
    return all(_is_before_barriers(use.op, loop) for use in uses)


def _is_before_barriers(op: ir.Operation, loop: ir.Operation) -> bool:
    """Return whether ``op`` is in the loop's body, before the first barrier there."""
    while op.parent is not None and op.parent.operation != loop:
        op = op.parent.operation
    if op.parent is None:
        return False
    inside = list(operations(loop.regions[0].blocks[0]))
    return inside.index(op) < next(n for n, other in enumerate(inside) if other.name in COLLECTIVES)


def _is_first(use: Use, uses: Sequence[Use], owners: Owners) -> list[Truth] | None:
    """Return whether ``use`` is of the element that belongs to its work-item by the indices of all writes."""
    index = constant_integer(use.access.indices[0])
    mine = owners.pinned(use, "thread_id", "x")
    writers = [other for other in uses if other.access.mode != image_layout.CHECK_READ]
    if index is None or mine is None or not writers:
        return None
    for other in writers:
        form = owners.forms.of(other.access.indices[0])
        if form is None or form.variables != {("thread_id", "x")}:
            return None
        ((_, factor),) = form.factors
        scale, fixed = number_of(factor), number_of(form.fixed)
        if scale is None or fixed is None or scale * mine + fixed != index:
            return None
    numbers = owners.ranges.numbers
    return [numbers.equal(owners.ranges.hardware("block_dim", axis).high, 1) for axis in "yz"]
