"""A kernel in two copies: with the checks that proofs leave, and with all of them.

A proof is a set of conditions on the launch's sizes and the kernel's arguments. They are checked once per
workgroup and are the same for all workgroups of a launch: if recording an access depended on the
workgroup, a race between two workgroups could be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import VERSIONED, nested, operations, terminator
from gpubuild.engine.backends.cpu.sanitizer.accesses import access_of, memories
from gpubuild.engine.backends.cpu.sanitizer.bounds import stays_inside
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import Forms, Owners
from gpubuild.engine.backends.cpu.sanitizer.races import Races
from gpubuild.engine.backends.cpu.sanitizer.ranges import Ranges, Truth
from gpubuild.engine.backends.cpu.sanitizer.uninitialized import Written
from gpubuild.engine.ir.builder import Emitter
from gpubuild.targets.target import Sanitize

PROVEN = "gpubuild.proven"  # on an access: the checks that it does not need
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


def _prove_all(kernel: ir.Operation, emit: Emitter, wanted: frozenset[Sanitize]) -> Proofs:
    """Look for proofs; conditions are computed where ``emit`` points, in the kernel's entry."""
    ranges = Ranges(kernel, emit)
    proofs = Proofs()
    accesses = [(op, access) for op in nested(kernel) if (access := access_of(op)) is not None]
    checked = Sanitize.BOUNDS in wanted
    if checked:
        for op, access in accesses:
            inside = stays_inside(op, access, ranges)
            if inside is not None:
                proofs.add([op], Sanitize.BOUNDS, inside)
    found = memories(kernel) if wanted & {Sanitize.RACE, Sanitize.UNINITIALIZED} else None
    if found is not None:
        # The other proofs take indices for in bounds. Where no check ensures that, it is a condition.
        uses = [] if checked else [use for memory in found for use in memory.uses]
        inside = [part for use in uses for part in stays_inside(use.op, use.access, ranges) or ()]
        owners = Owners(ranges, Forms(kernel.regions[0].blocks[0]))
        if Sanitize.RACE in wanted:
            for apart, conditions in Races(kernel, emit, owners, found).proofs():
                proofs.add([use.op for use in apart], Sanitize.RACE, [*inside, *conditions])
        if Sanitize.UNINITIALIZED in wanted:
            for written, conditions in Written(owners).proofs(found):
                proofs.add([use.op for use in written], Sanitize.UNINITIALIZED, [*inside, *conditions])
    if len(proofs.conditions) > _MOST_CONDITIONS:
        return Proofs()
    return proofs


def prove_kernels(module: ir.Operation, wanted: frozenset[Sanitize]) -> None:
    """Mark what need not be checked in the kernels of the gpu.module ``module``."""
    for kernel in list(operations(module.regions[0].blocks[0])):
        if (
            kernel.name == "gpu.func"
            and "gpu.kernel" in kernel.attributes
            and len(kernel.regions[0].blocks) == 1
        ):
            _prove(kernel, wanted)


def proven_for(op: ir.Operation) -> set[Sanitize]:
    """Return what need not be checked of ``op``; the mark is taken away."""
    kinds = _marked(op)
    if kinds:
        del op.attributes[PROVEN]
    return kinds


def _marked(op: ir.Operation) -> set[Sanitize]:
    if PROVEN not in op.attributes:
        return set()
    return {Sanitize(ir.StringAttr(a).value) for a in ir.ArrayAttr(op.attributes[PROVEN])}


def without_records(module: ir.Operation) -> set[ir.Operation]:
    """Return the ops of copies of kernels in which no access is recorded for races.

    Nobody asks there which barriers were passed. It is the same for all workgroups of a launch. To be asked
    while accesses have the marks of :func:`prove_kernels`.
    """
    found: set[ir.Operation] = set()
    for kernel in operations(module.regions[0].blocks[0]):
        if kernel.name != "gpu.func" or "gpu.kernel" not in kernel.attributes:
            continue
        for copy in _copies(kernel):
            if not any(map(_may_record, copy)):
                found.update(copy)
    return found


def _copies(kernel: ir.Operation) -> list[list[ir.Operation]]:
    inside = [op for op in nested(kernel) if op != kernel]
    branches = [op for op in inside if VERSIONED in op.attributes]
    if not branches:
        return [inside]
    return [
        [op for top in operations(region.blocks[0]) for op in nested(top)] for region in branches[0].regions
    ]


def _may_record(op: ir.Operation) -> bool:
    """Return whether ``op``, or a function that it calls, accesses memory that others may access, too."""
    if op.name == "func.call":
        return True
    access = access_of(op)
    return access is not None and not access.private and Sanitize.RACE not in _marked(op)


def _prove(kernel: ir.Operation, wanted: frozenset[Sanitize]) -> None:
    entry = kernel.regions[0].blocks[0]
    end = terminator(entry)
    body = [op for op in operations(entry) if op != end]
    if not body:
        return
    copy = kernel.clone(ir.InsertionPoint(kernel)).operation  # without what proofs compute
    emit = Emitter(body[0])
    proofs = _prove_all(kernel, emit, wanted)
    for op, kinds in proofs.proven.items():
        op.attributes[PROVEN] = ir.ArrayAttr.get([ir.StringAttr.get(kind) for kind in sorted(kinds)])
    conditions = [c for c in proofs.conditions if not isinstance(c, bool)]
    if conditions:
        # Joined in front of the body, where all of them are known.
        condition = conditions[0]
        for other in dict.fromkeys(conditions[1:]):
            condition = emit.binary("arith.andi", condition, other)
        _branch(entry, body, copy, emit, condition)
    copy.erase()


def _branch(
    entry: ir.Block, body: list[ir.Operation], copy: ir.Operation, emit: Emitter, condition: ir.Value
) -> None:
    """Put ``body`` into one branch and the ops of ``copy`` into the other."""
    other = copy.regions[0].blocks[0]
    for mine, theirs in zip(entry.arguments, other.arguments, strict=True):
        theirs.replace_all_uses_with(mine)
    end = terminator(other)
    copied = [op for op in operations(other) if op != end]
    branch = emit.op("scf.if", [condition], [], {VERSIONED: ir.UnitAttr.get()}, regions=2)
    ends = []
    for region in branch.regions:
        ends.append(emit.inside(region.blocks.append()).op("scf.yield", [], []))
    for old, new in zip(body, copied, strict=True):
        if old.name == "memref.alloca" and not len(old.operands):
            old.move_before(branch)  # private memory belongs to the function
            new.results[0].replace_all_uses_with(old.results[0])
            continue
        old.move_before(ends[0])
        new.move_before(ends[1])
