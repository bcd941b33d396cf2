"""Proofs that workgroup memory is written, before a barrier, before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import WORKGROUP_BARRIERS, nested, operations
from gpubuild.engine.backends.cpu.sanitizer.accesses import Memory, Use
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import Atom, IndexForms, Proof
from gpubuild.engine.backends.cpu.sanitizer.ranges import Range, Truth, constant
from gpubuild.engine.ir.query import constant_integer


def initialization_proofs(found: Sequence[Memory], forms: IndexForms) -> Iterator[Proof]:
    """Return accesses to workgroup memory that is written before it is read, with the conditions.

    The proof is a store that all work-items make and that together writes a box of the memref without gaps.
    """
    for memory in found:
        if not memory.in_workgroup:
            continue
        readers = [use for use in memory.uses if use.access.mode != image_layout.CHECK_WRITE]
        conditions: list[Truth] = []
        proven = []
        for reader in readers:
            written = _written_before(reader, memory, forms)
            if written is not None and False not in written:
                proven.append(reader)
                conditions += written
        if len(proven) == len(readers):
            proven = memory.uses  # without checked reads, writes need no record
        if proven:
            yield proven, conditions


def _written_before(reader: Use, memory: Memory, forms: IndexForms) -> list[Truth] | None:
    """Return when all that ``reader`` reads is written before; ``None`` when that is not known."""
    for store in memory.uses:
        access = store.access
        if access.mode != image_layout.CHECK_WRITE or access.count != 1 or access.masked:
            continue
        loops = _loops_before(store.op, reader.op) if store.direct and reader.direct else None
        conditions = None if loops is None else _covers(store, reader, loops, forms)
        if conditions is not None:
            return conditions
    return None


def _covers(store: Use, reader: Use, loops: list[ir.Operation], forms: IndexForms) -> list[Truth] | None:
    """Return when ``store`` writes all that ``reader`` reads; ``loops`` end before the barrier."""
    ranges, n = forms.ranges, forms.ranges.numbers
    conditions: list[Truth] = []
    used: set[Atom] = set()
    for number, index in enumerate(store.access.indices):
        form = forms.of(index)
        if form is None or (first := form.fixed.number) is None or form.variables & used:
            return None
        used |= form.variables
        counts: dict[Atom, Range] = {}
        for atom in form.variables:
            if atom[0] == "block_id":
                return None
            if atom[0] == "iteration":
                loop = forms.loops[int(atom[1])]
                ends = [ranges.of(value, ranges.facts_at(loop)) for value in list(loop.operands)[:3]]
                count = forms.iteration_count(loop, store.op)
                # The number of iterations must not depend on the work-item.
                if loop not in loops or count is None or not all(e and e.is_single for e in ends):
                    return None
                counts[atom] = count
        digits = forms.digits(form, counts, launch=False)
        read = _read_range(reader, number, forms)
        if digits is None or read is None:
            return None
        reach = constant(0)
        for digit in digits:
            conditions.append(n.at_most(digit.factor.high, n.add(reach.high, 1)))
            conditions.append(n.less(0, digit.factor.low))
            reach = forms.reach_with(reach, digit)
            conditions += reach.given
        conditions += (*read.given, n.at_most(first, read.low))
        conditions.append(n.at_most(read.high, n.add(first, reach.high)))
    return conditions


def _read_range(reader: Use, number: int, forms: IndexForms) -> Range | None:
    """Return the indices of a dimension that ``reader`` may read."""
    ranges, access = forms.ranges, reader.access
    last = number == len(access.indices) - 1
    if access.masked or (last and access.may_be_partial):
        return None
    found = ranges.of(access.indices[number], ranges.facts_at(reader.op))
    if found is None:
        # All of the dimension: beyond its end nothing is read.
        size = ranges.size(access.memory, number)
        return size and replace(size, low=0, high=ranges.numbers.add(size.high, -1))
    count = access.count if last else 1
    return ranges.sum(found, Range(low=0, high=count - 1, bits=count.bit_length()))


def _loops_before(store: ir.Operation, reader: ir.Operation) -> list[ir.Operation] | None:
    """Return the loops around ``store`` up to a barrier of all work-items before ``reader``.

    ``None`` when there is no such barrier, or when some work-items may not store.
    """
    loops: list[ir.Operation] = []
    outer: ir.Operation = store
    while True:
        inside = list(operations(outer.operation.block))
        following = inside[inside.index(outer) + 1 :]
        barrier = next((n for n, op in enumerate(following) if op.name in WORKGROUP_BARRIERS), None)
        if barrier is not None and any(reader in nested(op) for op in following[barrier + 1 :]):
            return loops
        outer = outer.parent.operation
        if outer.name != "scf.for":
            return None
        lower, upper = map(constant_integer, list(outer.operands)[:2])
        if lower is None or upper is None or lower >= upper:
            return None  # it may have no iteration
        loops.append(outer)
