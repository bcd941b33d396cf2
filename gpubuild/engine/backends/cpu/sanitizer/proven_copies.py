"""Make two copies of a kernel: without the checks that proofs show to be needless, and with all of them.

A proof is a set of conditions on the launch's sizes and the kernel's arguments. They are checked once per
workgroup and are the same for all workgroups of a launch: if recording an access depended on the
workgroup, a race between two workgroups could be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import (
    VERSIONED,
    WORKGROUP_BARRIERS,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.backends.cpu.sanitizer.accesses import access_of, memories
from gpubuild.engine.backends.cpu.sanitizer.bounds import both, stays_inside
from gpubuild.engine.backends.cpu.sanitizer.identity_indices import IndexForms
from gpubuild.engine.backends.cpu.sanitizer.races import Races, orders_subgroup
from gpubuild.engine.backends.cpu.sanitizer.ranges import Ranges, Truth
from gpubuild.engine.backends.cpu.sanitizer.uninitialized import initialization_proofs
from gpubuild.engine.ir.builder import Emitter
from gpubuild.targets.target import Sanitize

PROVEN = "gpubuild.proven"  # on an access or a barrier: the checks that it does not need
_MOST_CONDITIONS = 400  # a kernel with more is checked access by access


@dataclass(slots=True, kw_only=True)
class Proofs:
    """The checks that each access does not need, given ``conditions``."""

    proven: dict[ir.Operation, set[Sanitize]] = field(default_factory=dict)
    conditions: list[Truth] = field(default_factory=list)

    def add(self, ops: Sequence[ir.Operation], kind: Sanitize, conditions: Sequence[Truth]) -> None:
        """Add a proof, unless it is already known not to hold."""
        if any(condition is False for condition in conditions):
            return
        for op in ops:
            self.proven.setdefault(op, set()).add(kind)
        self.conditions += conditions


def prove_kernels(module: ir.Operation, wanted: frozenset[Sanitize]) -> None:
    """Mark the needless checks in the kernels of the gpu.module ``module``."""
    for kernel in list(operations(module.regions[0].blocks[0])):
        is_kernel = kernel.name == "gpu.func" and "gpu.kernel" in kernel.attributes
        if is_kernel and len(kernel.regions[0].blocks) == 1:
            _prove(kernel, wanted)


def take_proven(op: ir.Operation) -> set[Sanitize]:
    """Return the checks that ``op`` does not need, and remove the mark."""
    if PROVEN not in op.attributes:
        return set()
    kinds = {Sanitize(ir.StringAttr(a).value) for a in ir.ArrayAttr(op.attributes[PROVEN])}
    del op.attributes[PROVEN]
    return kinds


def _prove(kernel: ir.Operation, wanted: frozenset[Sanitize]) -> None:
    entry = kernel.regions[0].blocks[0]
    end = terminator(entry)
    body = [op for op in operations(entry) if op != end]
    if not body:
        return
    copy = kernel.clone(ir.InsertionPoint(kernel)).operation  # without the ops that proofs emit
    emit = Emitter(body[0])
    proofs = _prove_all(kernel, emit, wanted)
    for op, kinds in proofs.proven.items():
        op.attributes[PROVEN] = ir.ArrayAttr.get([ir.StringAttr.get(kind) for kind in sorted(kinds)])
    conditions = dict.fromkeys(c for c in proofs.conditions if not isinstance(c, bool))
    condition = both(emit, list(conditions))  # in front of the body, where all of them are known
    if condition is not None:
        _branch(entry, body, copy, emit, condition)
    copy.erase()


def _prove_all(kernel: ir.Operation, emit: Emitter, wanted: frozenset[Sanitize]) -> Proofs:
    """Find proofs; conditions are computed where ``emit`` points, in the kernel's entry."""
    ranges = Ranges(kernel, emit)
    proofs = Proofs()
    inside = nested(kernel)
    accesses = [(op, access) for op in inside if (access := access_of(op)) is not None]
    if Sanitize.BOUNDS in wanted:
        for op, access in accesses:
            stays = stays_inside(op, access, ranges)
            if stays is not None:
                proofs.add([op], Sanitize.BOUNDS, stays)
    found = memories(kernel) if wanted & {Sanitize.RACE, Sanitize.UNINITIALIZED} else None
    if found is not None:
        # The other proofs assume that indices are in bounds. Where no check ensures that, it is a condition.
        uses = [] if Sanitize.BOUNDS in wanted else [use for memory in found for use in memory.uses]
        in_bounds = [part for use in uses for part in stays_inside(use.op, use.access, ranges) or ()]
        forms = IndexForms(ranges)
        if Sanitize.RACE in wanted:
            for apart, conditions in Races(kernel, emit, forms, found).proofs():
                proofs.add([use.op for use in apart], Sanitize.RACE, [*in_bounds, *conditions])
        if Sanitize.UNINITIALIZED in wanted:
            for written, conditions in initialization_proofs(found, forms):
                proofs.add([use.op for use in written], Sanitize.UNINITIALIZED, [*in_bounds, *conditions])
    if len(proofs.conditions) > _MOST_CONDITIONS:
        return Proofs()
    shared = [op for op, access in accesses if not access.private]
    recorded = any(Sanitize.RACE not in proofs.proven.get(op, ()) for op in shared)
    if Sanitize.RACE in wanted and not recorded and all(op.name != "func.call" for op in inside):
        # Without records of accesses, barriers need none, which would keep loops with barriers slow.
        barriers = [op for op in inside if op.name in WORKGROUP_BARRIERS or orders_subgroup(op)]
        proofs.add(barriers, Sanitize.RACE, [])
    return proofs


def _branch(
    entry: ir.Block, body: list[ir.Operation], copy: ir.Operation, emit: Emitter, condition: ir.Value
) -> None:
    """Move ``body`` into one branch and the ops of ``copy`` into the other."""
    other = copy.regions[0].blocks[0]
    for mine, theirs in zip(entry.arguments, other.arguments, strict=True):
        theirs.replace_all_uses_with(mine)
    end = terminator(other)
    copied = [op for op in operations(other) if op != end]
    branch = emit.op("scf.if", [condition], [], {VERSIONED: ir.UnitAttr.get()}, regions=2)
    ends = [emit.inside(region.blocks.append()).op("scf.yield", [], []) for region in branch.regions]
    for old, new in zip(body, copied, strict=True):
        if old.name == "memref.alloca" and not len(old.operands):
            old.move_before(branch)  # private memory belongs to the function
            new.results[0].replace_all_uses_with(old.results[0])
            continue
        old.move_before(ends[0])
        new.move_before(ends[1])
