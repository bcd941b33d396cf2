"""Check proofs: which checks a kernel does not need, if what the launch is like allows it.

A proof is a set of conditions on the launch's shape and the kernel's arguments. They are the same for all
workgroups of a launch: whether an access is recorded must not depend on the workgroup, or a race between
two of them would be seen from one side only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import nested
from gpubuild.engine.backends.cpu.sanitizer.check_access import Access, access_of
from gpubuild.engine.backends.cpu.sanitizer.check_address import element_bytes, whole_memory
from gpubuild.engine.backends.cpu.sanitizer.check_forms import Forms
from gpubuild.engine.backends.cpu.sanitizer.check_halves import without_upper_halves
from gpubuild.engine.backends.cpu.sanitizer.check_memory import Memory, Use, is_contiguous, memories, writes
from gpubuild.engine.backends.cpu.sanitizer.check_numbers import Truth
from gpubuild.engine.backends.cpu.sanitizer.check_owners import Owners
from gpubuild.engine.backends.cpu.sanitizer.check_ranges import Ranges
from gpubuild.engine.backends.cpu.sanitizer.check_segments import Segments
from gpubuild.engine.backends.cpu.sanitizer.check_written import Written
from gpubuild.engine.ir.builder import Emitter
from gpubuild.targets.target import Sanitize

_MOST_CONDITIONS = 400  # a kernel with more is checked access by access


@dataclass(slots=True, kw_only=True)
class Proofs:
    """For each access what need not be checked, given ``conditions``."""

    proven: dict[ir.Operation, set[Sanitize]] = field(default_factory=dict)
    conditions: list[Truth] = field(default_factory=list)

    def add(self, ops: Sequence[ir.Operation], kind: Sanitize, conditions: Sequence[Truth]) -> None:
        """Take up a proof, unless it is known now that it does not hold."""
        if any(condition is False for condition in conditions):
            return
        for op in ops:
            self.proven.setdefault(op, set()).add(kind)
        self.conditions += conditions


def prove(kernel: ir.Operation, emit: Emitter, wanted: frozenset[Sanitize]) -> Proofs:
    """Look for proofs; conditions are computed where ``emit`` points, in the kernel's entry."""
    ranges = Ranges(kernel, emit)
    proofs = Proofs()
    accesses = [(op, access) for op in nested(kernel) if (access := access_of(op)) is not None]
    if Sanitize.BOUNDS in wanted:
        for op, access in accesses:
            inside = _inside(op, access, ranges)
            if inside is not None:
                proofs.add([op], Sanitize.BOUNDS, inside)
    found = memories(kernel) if wanted & {Sanitize.RACE, Sanitize.UNINITIALIZED} else None
    if found is not None:
        prover = _Prover(kernel, emit, ranges, found, checked=Sanitize.BOUNDS in wanted)
        if Sanitize.RACE in wanted:
            prover.races(proofs)
        if Sanitize.UNINITIALIZED in wanted:
            prover.initialized(proofs)
    if len(proofs.conditions) > _MOST_CONDITIONS:
        return Proofs()
    return proofs


def _inside(op: ir.Operation, access: Access, ranges: Ranges) -> list[Truth] | None:
    """What must hold for the indices that are checked to be in bounds for all work-items."""
    facts = ranges.facts_at(op)
    conditions: list[Truth] = []
    for number, index in enumerate(access.indices):
        count = 1
        if number == len(access.indices) - 1:
            if access.masked or access.may_be_partial:
                continue
            count = access.count
        range_, size = ranges.of(index, facts), ranges.size(access.memory, number)
        if range_ is None or size is None:
            return None
        n = ranges.numbers
        conditions += (*range_.given, *size.given, n.at_most(0, range_.low))
        conditions.append(n.less(n.add(range_.high, count - 1), size.low))
    return conditions


class _Prover:
    """Proofs about who accesses what, for one kernel all of whose accesses are known."""

    def __init__(
        self, kernel: ir.Operation, emit: Emitter, ranges: Ranges, found: list[Memory], *, checked: bool
    ) -> None:
        entry = kernel.regions[0].blocks[0]
        self._emit = emit
        self._ranges = ranges
        self._found = found
        self._segments = Segments(entry)
        self._owners = Owners(ranges, Forms(entry))
        self._inside = self._all_inside(checked)
        self._extents: dict[ir.Value, tuple[ir.Value, ir.Value]] = {}

    def _all_inside(self, checked: bool) -> list[Truth]:
        """What must hold for accesses to stay in their memrefs, where that can be told and nobody checks."""
        conditions: list[Truth] = []
        for use in (use for memory in self._found for use in memory.uses):
            if not checked:
                conditions += _inside(use.op, use.access, self._ranges) or ()
        return conditions

    # ---- races ----

    def races(self, proofs: Proofs) -> None:
        """Memory in which no two accesses can race."""
        for memory in self._found:
            if memory.in_workgroup:
                self._workgroup_memory(memory, proofs)
            else:
                self._global_memory(memory, proofs)

    def _workgroup_memory(self, memory: Memory, proofs: Proofs) -> None:
        segments: dict[int, list[Use]] = {}
        for use in memory.uses:
            segments.setdefault(self._segments.of(use.op), []).append(use)
        for uses in segments.values():
            apart = self._apart(uses, launch=False)
            if apart is not None:
                proofs.add([use.op for use in uses], Sanitize.RACE, [*self._inside, *apart])

    def _global_memory(self, memory: Memory, proofs: Proofs) -> None:
        apart = self._apart(memory.uses, launch=True)
        if apart is None or (not memory.argument and writes(memory)):
            return
        conditions = [*self._inside, *apart]
        for other in self._found:
            if other is memory or not (memory.argument and other.argument):
                continue
            if writes(memory) or writes(other):
                disjoint = self._disjoint(memory, other)
                if disjoint is None:
                    return
                conditions.append(disjoint)
        proofs.add([use.op for use in memory.uses], Sanitize.RACE, conditions)

    def _apart(self, uses: Sequence[Use], *, launch: bool) -> list[Truth] | None:
        modes = {use.access.mode for use in uses}
        if modes in ({image_layout.CHECK_READ}, {image_layout.CHECK_ATOMIC}):
            return []
        if not all(use.direct and is_contiguous(use.access.memory.type) for use in uses):
            return None
        if launch:
            return self._owners.apart(uses, launch=True)
        left, conditions = without_upper_halves(uses, self._owners)
        apart = self._owners.apart(left, launch=False)
        return None if apart is None else [*conditions, *apart]

    def _disjoint(self, a: Memory, b: Memory) -> Truth | None:
        """Whether two arguments have no memory in common: the same may be passed twice."""
        ends = [self._extent(memory) for memory in (a, b)]
        if ends[0] is None or ends[1] is None:
            return None
        n = self._ranges.numbers
        (a_first, a_end), (b_first, b_end) = ends[0], ends[1]
        return n.either(n.at_most(a_end, b_first), n.at_most(b_end, a_first))

    def _extent(self, memory: Memory) -> tuple[ir.Value, ir.Value] | None:
        """The addresses of the first byte and of that behind the last one."""
        kind = ir.MemRefType(memory.root.type)
        bytes_each = element_bytes(kind.element_type)
        if bytes_each is None or not is_contiguous(kind):
            return None
        if memory.root not in self._extents:
            first, bytes_ = whole_memory(self._emit, memory.root, bytes_each)
            self._extents[memory.root] = first, self._emit.binary("arith.addi", first, bytes_)
        return self._extents[memory.root]

    # ---- uninitialised memory ----

    def initialized(self, proofs: Proofs) -> None:
        """Workgroup memory all of which is written before it is read."""
        written = Written(self._owners)
        for memory in self._found:
            if not memory.in_workgroup:
                continue
            readers = [use for use in memory.uses if use.access.mode != image_layout.CHECK_WRITE]
            conditions: list[Truth] = list(self._inside)
            proven = []
            for reader in readers:
                found = written.before(reader, memory)
                if found is not None and False not in found:
                    proven.append(reader)
                    conditions += found
            if len(proven) == len(readers):
                proven = memory.uses  # nobody asks what was written
            if proven:
                proofs.add([use.op for use in proven], Sanitize.UNINITIALIZED, conditions)
