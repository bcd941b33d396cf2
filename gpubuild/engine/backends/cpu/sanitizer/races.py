"""Proofs that the accesses of a kernel cannot race.

Three facts are used. All work-items of a workgroup wait at the same barriers, so accesses in different
segments, the parts between two barriers, cannot race. Accesses whose indices follow the identity-index rule
cannot race. And in reductions in workgroup memory the lower work-items read the values of the upper half:

    if t < n: s[t] = s[t] + s[t + n]

Below ``n`` there are only writes, each by its work-item, and from ``n`` on there are only reads. That holds
if ``n`` is the same for all work-items between the same two barriers: a constant, or a number that each
iteration of a loop computes from the one before, with a barrier in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import WORKGROUP_BARRIERS, nested, operations, terminator
from gpubuild.engine.backends.cpu.sanitizer.accesses import Memory, Use, is_contiguous, whole_memory
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import IndexForms, Proof
from gpubuild.engine.backends.cpu.sanitizer.ranges import Truth
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op, element_bytes

_SUBGROUP_WAIT = "nvvm.bar.warp.sync"  # also what engine.legalize.matrices makes lanes wait with
_ALL_LANES = {-1, (1 << image_layout.SUBGROUP) - 1}
_STEPS = frozenset({"arith.shrui", "arith.divui", "arith.muli", "arith.addi", "arith.subi", "arith.shli"})


def orders_subgroup(op: ir.Operation) -> bool:
    """Return whether all lanes of a subgroup wait at ``op``, which orders their accesses."""
    return op.name == _SUBGROUP_WAIT and constant_integer(op.operands[0]) in _ALL_LANES


class Segments:
    """Numbers for ops: two ops of different numbers never run between the same two barriers.

    All work-items of a workgroup wait at the same barriers, or that is reported. All ops that may run on any
    path from one barrier to the next are in one segment.
    """

    def __init__(self, entry: ir.Block) -> None:
        self._parents = [0]
        self._numbers: dict[ir.Operation, int] = {}
        self._walk(entry, 0)

    def of(self, op: ir.Operation) -> int:
        """Return the number of an op's segment."""
        return self._find(self._numbers[op])

    def _find(self, number: int) -> int:
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    def _walk(self, block: ir.Block, number: int) -> int:
        """Number the ops of ``block``, which begins in segment ``number``; return the segment at its end."""
        for op in operations(block):
            inside = nested(op)
            self._numbers.update(dict.fromkeys(inside, number))
            if op.name in WORKGROUP_BARRIERS:
                self._parents.append(len(self._parents))
                number = len(self._parents) - 1
            elif any(inner.name in WORKGROUP_BARRIERS for inner in inside):
                # Any path through the op may follow any other, and none may be taken.
                for region in op.regions:
                    for inner in region.blocks:
                        end = self._walk(inner, number)
                        self._parents[self._find(end)] = self._find(number)
        return number


class Races:
    """Proofs for one kernel all of whose accesses are known and in bounds."""

    def __init__(self, kernel: ir.Operation, emit: Emitter, forms: IndexForms, found: list[Memory]) -> None:
        self._emit = emit
        self._forms = forms
        self._found = found
        self._segments = Segments(kernel.regions[0].blocks[0])
        self._extents: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def proofs(self) -> Iterator[Proof]:
        """Return accesses that cannot race, with the conditions for that."""
        for memory in self._found:
            yield from self._workgroup_memory(memory) if memory.in_workgroup else self._global_memory(memory)

    def _workgroup_memory(self, memory: Memory) -> Iterator[Proof]:
        segments: dict[int, list[Use]] = {}
        for use in memory.uses:
            segments.setdefault(self._segments.of(use.op), []).append(use)
        for uses in segments.values():
            conditions = self._disjoint_uses(uses, launch=False)
            if conditions is not None:
                yield uses, conditions

    def _global_memory(self, memory: Memory) -> Iterator[Proof]:
        conditions = self._disjoint_uses(memory.uses, launch=True)
        if conditions is None or (not memory.argument and memory.is_written):
            return
        for other in self._found:
            if other is memory or not (memory.argument and other.argument):
                continue
            if memory.is_written or other.is_written:
                disjoint = self._disjoint_arguments(memory, other)
                if disjoint is None:
                    return
                conditions.append(disjoint)
        yield memory.uses, conditions

    def _disjoint_uses(self, uses: Sequence[Use], *, launch: bool) -> list[Truth] | None:
        modes = {use.access.mode for use in uses}
        if modes in ({image_layout.CHECK_READ}, {image_layout.CHECK_ATOMIC}):
            return []
        if not all(use.direct and is_contiguous(use.access.memory.type) for use in uses):
            return None
        left, conditions = (uses, []) if launch else _without_upper_halves(uses, self._forms)
        disjoint = self._forms.disjoint(left, launch=launch)
        return None if disjoint is None else [*conditions, *disjoint]

    def _disjoint_arguments(self, a: Memory, b: Memory) -> Truth | None:
        """Whether two arguments have no memory in common: one buffer may be passed twice."""
        ends = [self._extent(memory) for memory in (a, b)]
        if ends[0] is None or ends[1] is None:
            return None
        (a_first, a_end), (b_first, b_end) = ends[0], ends[1]
        compare = self._emit.compare
        before, behind = compare(Compare.SLE, a_end, b_first), compare(Compare.SLE, b_end, a_first)
        return self._emit.binary("arith.ori", before, behind)

    def _extent(self, memory: Memory) -> tuple[ir.Value, ir.Value] | None:
        """Return the address of the first byte, and the address behind the last one."""
        kind = ir.MemRefType(memory.root.type)
        bytes_each = element_bytes(kind.element_type)
        if bytes_each is None or not is_contiguous(kind):
            return None
        if memory.root not in self._extents:
            first, bytes_ = whole_memory(self._emit, memory.root, bytes_each)
            self._extents[memory.root] = first, self._emit.binary("arith.addi", first, bytes_)
        return self._extents[memory.root]


def _without_upper_halves(uses: Sequence[Use], forms: IndexForms) -> tuple[list[Use], list[Truth]]:
    """Return the uses that may still race, and the conditions under which the others cannot."""
    kept: list[Use] = []
    conditions: list[Truth] = []
    if not all(use.direct and len(use.access.indices) == 1 and use.access.count == 1 for use in uses):
        return list(uses), []
    writers = [use for use in uses if use.access.mode != image_layout.CHECK_READ]
    for use in uses:
        found = None
        if use.access.mode == image_layout.CHECK_READ and not use.access.masked:
            found = _is_above(use, writers, forms)
            if found is None:
                found = _is_first(use, writers, forms)
        if found is None:
            kept.append(use)
        else:
            conditions += found
    return kept, conditions


def _is_above(use: Use, writers: Sequence[Use], forms: IndexForms) -> list[Truth] | None:
    """Return the conditions under which ``use`` reads at ``x + n`` and all writes are below that ``n``."""
    index = use.access.indices[0]
    total = defining_op(index)
    if total is None or total.name != "arith.addi":
        return None
    facts = forms.ranges.facts_at(use.op)
    for start, limit in (total.operands, reversed(list(total.operands))):
        ranges = [forms.ranges.of(value, facts) for value in (index, start, limit)]
        if not all(r is not None and r.is_natural for r in ranges):
            continue
        if all(_is_guarded(other, limit) for other in writers) and _is_uniform(limit, [use, *writers]):
            return [condition for r in ranges if r is not None for condition in r.given]
    return None


def _is_guarded(use: Use, limit: ir.Value) -> bool:
    """Whether ``use`` is made only where its index is less than ``limit``."""
    block = use.op.operation.block
    while block.owner.operation.name != "gpu.func":
        owner = block.owner.operation
        if owner.name == "scf.if" and owner.regions[0].blocks[0] == block:
            compare = defining_op(owner.operands[0])
            if (
                compare is not None
                and compare.name == "arith.cmpi"
                and ir.IntegerAttr(compare.attributes["predicate"]).value == Compare.ULT
                and list(compare.operands) == [use.access.indices[0], limit]
            ):
                return True
        block = owner.block
    return False


def _is_uniform(limit: ir.Value, uses: Sequence[Use]) -> bool:
    """Whether work-items between the same two barriers have the same ``limit`` at the uses."""
    if constant_integer(limit) is not None:
        return True
    if not isinstance(limit.owner, ir.Block) or limit.owner.owner.operation.name != "scf.for":
        return False
    loop, body = limit.owner.owner.operation, limit.owner
    number = list(body.arguments).index(limit)
    barriers = [op for op in nested(loop) if op.name in WORKGROUP_BARRIERS]
    starts = [*list(loop.operands)[:3], loop.operands[2 + number]]
    if number == 0 or not barriers or any(constant_integer(value) is None for value in starts):
        return False
    # All iterations have the same barriers, and a constant number of them: work-items that
    # passed as many barriers are in the same iteration.
    if any(op.parent.operation != loop for op in barriers):
        return False
    step = defining_op(terminator(body).operands[number - 1])
    if step is None or step.name not in _STEPS:
        return False
    if step.operands[0] != limit or constant_integer(step.operands[1]) is None:
        return False
    # All uses are in the body, before the first barrier.
    inside = list(operations(body))
    first = next(n for n, op in enumerate(inside) if op.name in WORKGROUP_BARRIERS)
    before = {op for top in inside[:first] for op in nested(top)}
    return all(use.op in before for use in uses)


def _is_first(use: Use, writers: Sequence[Use], forms: IndexForms) -> list[Truth] | None:
    """Return the conditions under which one work-item alone makes ``use`` and alone writes there."""
    index = constant_integer(use.access.indices[0])
    mine = forms.pinned(use, "thread_id", "x")
    if index is None or mine is None or not writers:
        return None
    for other in writers:
        form = forms.of(other.access.indices[0])
        if form is None or form.variables != {("thread_id", "x")}:
            return None
        ((_, factor),) = form.factors
        scale, fixed = factor.number, form.fixed.number
        if scale is None or fixed is None or scale * mine + fixed != index:
            return None
    numbers = forms.ranges.numbers
    return [numbers.equal(forms.ranges.hardware("block_dim", axis).high, 1) for axis in "yz"]
