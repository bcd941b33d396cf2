"""Proofs that workgroup memory is written, before a barrier, before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import operations
from gpubuild.engine.backends.cpu.sanitizer.accesses import Memory, Use
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import Atom, Owners, Proof, number_of, reach_with
from gpubuild.engine.backends.cpu.sanitizer.races import COLLECTIVES
from gpubuild.engine.backends.cpu.sanitizer.ranges import Range, Truth, constant, same
from gpubuild.engine.ir.query import constant_integer


class Written:
    """Looks for stores that all work-items make, that together write a box of a memref without holes."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    def proofs(self, found: Sequence[Memory]) -> Iterator[Proof]:
        """Accesses to workgroup memory that is written before it is read, and the conditions for that."""
        for memory in found:
            if not memory.in_workgroup:
                continue
            readers = [use for use in memory.uses if use.access.mode != image_layout.CHECK_WRITE]
            conditions: list[Truth] = []
            proven = []
            for reader in readers:
                written = self._before(reader, memory)
                if written is not None and False not in written:
                    proven.append(reader)
                    conditions += written
            if len(proven) == len(readers):
                proven = memory.uses  # without checked reads, writes need no record
            if proven:
                yield proven, conditions

    def _before(self, reader: Use, memory: Memory) -> list[Truth] | None:
        """What must hold for all that ``reader`` reads to be written; ``None`` when that is not known."""
        for store in memory.uses:
            if (
                store.access.mode != image_layout.CHECK_WRITE
                or store.access.count != 1
                or store.access.masked
            ):
                continue
            if not (store.direct and reader.direct):
                continue
            loops = _loops_before(store.op, reader.op)
            if loops is None:
                continue
            conditions = self._covers(store, reader, loops)
            if conditions is not None:
                return conditions
        return None

    def _covers(self, store: Use, reader: Use, loops: list[ir.Operation]) -> list[Truth] | None:
        """Return what must hold for ``store`` to cover the read; ``loops`` end before the barrier."""
        ranges = self._owners.ranges
        n = ranges.numbers
        conditions: list[Truth] = []
        used: set[Atom] = set()
        for number, index in enumerate(store.access.indices):
            form = self._owners.forms.of(index)
            if form is None or (first := number_of(form.fixed)) is None or form.variables & used:
                return None
            used |= form.variables
            for atom in form.variables:
                if atom[0] == "block_id":
                    return None
                if atom[0] == "trip" and self._owners.forms.loops[int(atom[1])] not in loops:
                    return None
            counts = {a: c for a in form.variables if a[0] == "trip" and (c := self._iterations(a, store.op))}
            digits = self._owners.digits(form, counts, launch=False)
            if digits is None:
                return None
            reach = constant(0)
            for digit in digits:
                conditions.append(n.at_most(digit.factor.high, n.add(reach.high, 1)))
                conditions.append(n.less(0, digit.factor.low))
                reach = reach_with(ranges, reach, digit)
                conditions += reach.given
            read = self._read(reader, number)
            if read is None:
                return None
            conditions += (*read.given, n.at_most(first, read.low))
            conditions.append(n.at_most(read.high, n.add(first, reach.high)))
        return conditions

    def _iterations(self, atom: Atom, op: ir.Operation) -> Range | None:
        """Return the iterations of a loop, if that is a number that does not depend on the work-item."""
        loop = self._owners.forms.loops[int(atom[1])]
        ranges = self._owners.ranges
        ends = [ranges.of(value, ranges.facts_at(loop)) for value in list(loop.operands)[:3]]
        if any(end is None or not same(end.low, end.high) for end in ends):
            return None
        return self._owners.iteration_count(loop, op)

    def _read(self, reader: Use, number: int) -> Range | None:
        """Return the part of a dimension that ``reader`` may read."""
        ranges, access = self._owners.ranges, reader.access
        last = number == len(access.indices) - 1
        found = ranges.of(access.indices[number], ranges.facts_at(reader.op))
        if access.masked or (last and access.may_be_partial):
            return None
        if found is None:
            # Beyond the end there is nothing that could be written or not.
            size = ranges.size(access.memory, number)
            return size and replace(size, low=0, high=ranges.numbers.sub(size.high, 1))
        return ranges.sum(found, _up_to(access.count if last else 1))


def _up_to(count: int) -> Range:
    return Range(low=0, high=count - 1, bits=count.bit_length())


def _loops_before(store: ir.Operation, reader: ir.Operation) -> list[ir.Operation] | None:
    """Return the loops that ``store`` is in, before a barrier that all work-items meet at before ``reader``.

    ``None`` when there is no such barrier, or when not all work-items surely store.
    """
    loops: list[ir.Operation] = []
    outer: ir.Operation = store
    while True:
        following = _following(outer)
        meets = next((n for n, op in enumerate(following) if op.name in COLLECTIVES), None)
        if meets is not None and any(_holds(op, reader) for op in following[meets + 1 :]):
            return loops
        outer = outer.parent.operation
        if outer.name != "scf.for" or not _surely_iterates(outer):
            return None
        loops.append(outer)


def _following(op: ir.Operation) -> list[ir.Operation]:
    inside = list(operations(op.operation.block))
    return inside[inside.index(op) + 1 :]


def _holds(outer: ir.Operation, op: ir.Operation) -> bool:
    around: ir.Operation | None = op
    while around is not None and around.name != "gpu.func":
        if around == outer:
            return True
        around = around.parent.operation
    return False


def _surely_iterates(loop: ir.Operation) -> bool:
    """Return whether the loop has at least one iteration, as far as constants tell."""
    lower, upper = map(constant_integer, list(loop.operands)[:2])
    return lower is not None and upper is not None and lower < upper
