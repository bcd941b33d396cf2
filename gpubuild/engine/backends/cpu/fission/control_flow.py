"""Control flow around barriers: built once for all work-items of a workgroup.

A condition that is not known to be the same for all work-items is kept in a slot and looked at when
the kernel runs. Where a barrier follows that needs the whole workgroup, all must agree: if they do not,
the program ends with a message, as in the fibers tier. Else (subgroups that go their own ways) those
that go on are a mask, and what follows is done for them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mlir import ir

from gpubuild.engine.backends.cpu.fission import masks
from gpubuild.engine.backends.cpu.fission.context_arrays import CannotFissionError, Slots
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import BoundsChecks
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, for_loop, if_op, set_operands
from gpubuild.engine.backends.cpu.fission.masks import Mask
from gpubuild.engine.backends.cpu.fission.recompute import Recompute
from gpubuild.engine.backends.cpu.fission.uniformity import (
    BARRIERS,
    GROUP_OPS,
    ITEM_IDS,
    WAITS_FOR,
    WORKGROUP_OPS,
    Uniformity,
    agreed,
    is_pure,
    must_meet,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES


class Work(Protocol):
    """What is needed of the transformation of a function (engine.backends.cpu.fission.fission)."""

    slots: Slots
    once: dict[ir.Value, ir.Value]
    meets: set[ir.Operation]
    uniformity: Uniformity
    recompute: Recompute
    bounds: BoundsChecks
    mask: Mask | None
    may_ask: bool

    @property
    def extents(self) -> Extents:
        """Values that are computed once per workgroup."""

    def block(self, ops: Sequence[ir.Operation], emit: Emitter) -> list[ir.Operation]:
        """Build ``ops``; gives back the last ones, which no barrier ends."""

    def flush(
        self,
        ops: Sequence[ir.Operation],
        emit: Emitter,
        consumer: ir.Operation | None = None,
        copies: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Make the loop nest that runs ``ops`` and then copies values into slots."""

    def known(self, value: ir.Value) -> ir.Value:
        """What a value that is the same for all work-items is in the new code."""


class ControlFlow:
    """Builds the structured ops of one function in which work-items meet."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def build(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        """Build ``op`` where ``emit`` points, after ``pending``.

        Raises ``CannotFissionError`` for an op that is not known.
        """
        if op.name == "scf.for":
            self._for(op, pending, emit)
        elif op.name == "scf.if":
            self._if(op, pending, emit)
        elif op.name == "scf.while":
            self._while(op, pending, emit)
        else:
            raise CannotFissionError(f"{first_meeting(op)} inside {op.name}")

    def _for(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        if not all(map(self._work.uniformity.uniform, bounds)):
            raise CannotFissionError(f"{first_meeting(op)} in a divergent {op.name}")  # prepare turned others
        body = op.regions[0].blocks[0]
        end = terminator(body)
        counter, *arguments = list(body.arguments)
        same = [self._work.uniformity.uniform(argument) for argument in arguments]
        varying = [a for a, uniform in zip(arguments, same, strict=True) if not uniform]
        entering = [
            (v, self._work.slots.of(a)) for v, a in zip(initial, arguments, strict=True) if a in varying
        ]
        self._work.flush(pending, emit, op, entering)
        for argument, value in zip(arguments, end.operands, strict=True):
            if argument in varying and self._may_share(argument, value, body):
                self._work.slots.share(value, argument)
        carried = [self._work.known(v) for v, uniform in zip(initial, same, strict=True) if uniform]
        attributes = {name: op.attributes[name] for name in op.attributes}
        lower, upper, step = (self._work.known(v) for v in bounds)
        loop = for_loop(emit, lower, upper, step, carried, attributes)
        inner = loop.regions[0].blocks[0]
        self._work.once[counter] = inner.arguments[0]
        kept = [a for a, uniform in zip(arguments, same, strict=True) if uniform]
        self._work.once.update(zip(kept, list(inner.arguments)[1:], strict=True))
        leaving = [
            (v, self._work.slots.of(a)) for v, a in zip(end.operands, arguments, strict=True) if a in varying
        ]
        new_end = terminator(inner)
        self._body(body, Emitter(new_end), leaving, self._work.mask)
        following = [self._work.known(v) for v, uniform in zip(end.operands, same, strict=True) if uniform]
        set_operands(new_end, following)
        results = iter(loop.results)
        for result, argument, uniform in zip(op.results, arguments, same, strict=True):
            if uniform:
                self._work.once[result] = next(results)
            else:
                self._work.slots.share(result, argument)

    def _if(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        work = self._work
        condition = op.operands[0]
        branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
        if work.uniformity.uniform(condition):
            work.flush(pending, emit)
            chosen = work.known(condition)
        else:
            self._check_may_ask(op)
            bits = work.slots.make(condition.type)
            work.flush(pending, emit, op, [(condition, bits)])
            if not agreed(op):
                self._masked_if(op, branches, bits, emit)
                return
            chosen = self._agree(op, bits, emit, inverted=not must_meet(branches[0]))
        results = list(op.results)
        same = [r for r in results if work.uniformity.uniform(r)]
        new = if_op(emit, chosen, [r.type for r in same], len(branches))
        for number, branch in enumerate(branches):
            yielded = list(terminator(branch).operands)
            leaving = [(v, work.slots.of(r)) for v, r in zip(yielded, results, strict=True) if r not in same]
            end = terminator(new.regions[number].blocks[0])
            self._body(branch, Emitter(end), leaving, work.mask)
            set_operands(end, [work.known(v) for v, r in zip(yielded, results, strict=True) if r in same])
        work.once.update(zip(same, new.results, strict=True))

    def _check_may_ask(self, op: ir.Operation) -> None:
        """Raise ``CannotFissionError`` where only fibers know what work-items may do at ``op``."""
        if not self._work.may_ask or (op.name == "scf.if" and self._takes_turns(op)):
            raise CannotFissionError(f"{first_meeting(op)} in a divergent {op.name}")

    def _takes_turns(self, op: ir.Operation) -> bool:
        """Whether work-items may come to a barrier in different iterations, as their ids tell.

        No rule allows it, but fibers run it: for the runtime they wait at the same barrier.
        """
        values, seen, ids, loops = [op.operands[0]], set(), False, False
        while values:
            value = values.pop()
            owner = owner_of(value)
            if value in seen or (owner is not None and not (owner.name in ITEM_IDS or is_pure(owner))):
                continue
            seen.add(value)
            if owner is None:
                loops |= value.owner.owner.operation in self._work.meets
            else:
                ids |= owner.name in ITEM_IDS
                values += list(owner.operands)
        return agreed(op) and ids and loops

    def _masked_if(
        self, op: ir.Operation, branches: Sequence[ir.Block], bits: ir.Value, emit: Emitter
    ) -> None:
        work = self._work
        outer = work.mask.slot if work.mask is not None else None
        if outer is not None:
            masks.keep(emit, work.extents, bits, outer)
        last = self._is_last(op) and sum(map(self._meets_in, branches)) == 1
        for number, branch in enumerate(branches):
            if number:
                rest = work.slots.make(op.operands[0].type)
                masks.others(emit, work.extents, rest, bits, outer)
                bits = rest
            leaving = [
                (v, work.slots.of(r)) for v, r in zip(terminator(branch).operands, op.results, strict=True)
            ]
            if len(branch.operations) > 1 or leaving:
                total = masks.count(emit, work.extents, bits)
                guard = if_op(emit, masks.differs(emit, total, work.extents.zero), [], 1)
                end = terminator(guard.regions[0].blocks[0])
                self._body(branch, Emitter(end), leaving, Mask(slot=bits, last=last))

    def _while(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        work, uniform = self._work, self._work.uniformity.uniform
        before, after = (region.blocks[0] for region in op.regions)
        condition, *passed = list(terminator(before).operands)
        following = list(terminator(after).operands)
        arguments, inner, results = list(before.arguments), list(after.arguments), list(op.results)
        if not uniform(condition):
            self._check_may_ask(op)
        together = uniform(condition) or agreed(op)
        work.flush(pending, emit, op, self._varying(op.operands, arguments))
        for result, argument in zip(results, inner, strict=True):
            if not uniform(result):
                work.slots.share(argument, result)
        mask = work.mask
        if not together:
            mask = Mask(slot=work.slots.make(condition.type), last=self._is_last(op))
            outer = work.mask.slot if work.mask is not None else None
            masks.fill(emit, work.extents, mask.slot, outer)
        kept_in = [a for a in arguments if uniform(a)]
        kept_out = [r for r in results if uniform(r)]
        carried = [work.known(v) for v, a in zip(op.operands, arguments, strict=True) if uniform(a)]
        loop = emit.op("scf.while", carried, [r.type for r in kept_out], regions=2)
        first = loop.regions[0].blocks.append(
            *[a.type for a in kept_in], arg_locs=[op.location] * len(kept_in)
        )
        work.once.update(zip(kept_in, first.arguments, strict=True))
        leaving, inside = self._varying(passed, results), emit.inside(first)
        if uniform(condition):
            self._body(before, inside, leaving, mask)
            more = work.known(condition)
        else:
            bits = work.slots.make(condition.type)
            self._body(before, inside, [*leaving, (condition, bits)], mask)
            if together or mask is None:
                more = self._agree(op, bits, inside)
            else:
                more = self._stay(bits, mask, inside)
        out = [work.known(v) for v, r in zip(passed, results, strict=True) if uniform(r)]
        inside.op("scf.condition", [more, *out], [])
        second = loop.regions[1].blocks.append(
            *[r.type for r in kept_out], arg_locs=[op.location] * len(kept_out)
        )
        work.once.update(zip([a for a in inner if uniform(a)], second.arguments, strict=True))
        inside = emit.inside(second)
        self._body(after, inside, self._varying(following, arguments), mask)
        back = [work.known(v) for v, a in zip(following, arguments, strict=True) if uniform(a)]
        inside.op("scf.yield", back, [])
        work.once.update(zip(kept_out, loop.results, strict=True))

    def _varying(
        self, values: Sequence[ir.Value], places: Sequence[ir.Value]
    ) -> list[tuple[ir.Value, ir.Value]]:
        """Values on their way to the slots of those of ``places`` that are not the same for all."""
        work = self._work
        pairs = zip(values, places, strict=True)
        return [(v, work.slots.of(place)) for v, place in pairs if not work.uniformity.uniform(place)]

    def _agree(self, op: ir.Operation, bits: ir.Value, emit: Emitter, *, inverted: bool = False) -> ir.Value:
        """What all work-items say in ``bits``; what ends the program unless they agree comes first.

        With ``inverted`` the barrier is where a condition is false.
        """
        work = self._work
        extents = work.extents
        if inverted:
            rest = work.slots.make(ir.IntegerType.get_signless(1))
            masks.others(emit, extents, rest, bits, work.mask.slot if work.mask is not None else None)
            bits = rest
        elif work.mask is not None:
            masks.keep(emit, extents, bits, work.mask.slot)
        total = masks.count(emit, extents, bits)
        masks.require_all(emit, extents, bits, total, _first(op, WORKGROUP_OPS))
        if inverted:
            true = emit.constant(1, ir.IntegerType.get_signless(1))
            return emit.binary("arith.xori", masks.differs(emit, total, extents.zero), true)
        return masks.differs(emit, total, extents.zero)

    def _stay(self, bits: ir.Value, mask: Mask, emit: Emitter) -> ir.Value:
        """Take out of ``mask`` who is not in ``bits``; whether anybody is left."""
        extents = self._work.extents
        masks.keep(emit, extents, bits, mask.slot)
        masks.fill(emit, extents, mask.slot, bits)
        return masks.differs(emit, masks.count(emit, extents, bits), extents.zero)

    def _body(
        self,
        block: ir.Block,
        emit: Emitter,
        leaving: list[tuple[ir.Value, ir.Value]],
        mask: Mask | None,
    ) -> None:
        """Build ``block`` for the work-items of ``mask``, at least one."""
        work = self._work
        outer = work.mask
        work.mask = self._enter(block, mask, emit)
        end = terminator(block)
        rest = work.block([op for op in operations(block) if op != end], emit)
        work.flush(rest, emit, end, leaving)
        work.mask = outer

    def _enter(self, block: ir.Block, mask: Mask | None, emit: Emitter) -> Mask | None:
        """See to it that nobody who runs ``block`` waits for somebody who does not; the mask from then on."""
        if mask is None:
            return None
        extents = self._work.extents
        if must_meet(block):
            total = masks.count(emit, extents, mask.slot)
            masks.require_all(emit, extents, mask.slot, total, _first_in(block, WORKGROUP_OPS))
            return None
        if not mask.last and any(
            op.name in BARRIERS and SOME_LANES not in op.attributes for op in operations(block)
        ):
            masks.require_subgroups(emit, extents, mask.slot, _first_in(block, BARRIERS))
        return mask

    def _meets_in(self, block: ir.Block) -> bool:
        return any(op in self._work.meets for op in operations(block))

    def _is_last(self, op: ir.Operation) -> bool:
        """Whether work-items that leave ``op`` return without waiting again."""
        while op in self._work.meets:
            order = list(operations(op.block))
            if any(other in self._work.meets for other in order[order.index(op) + 1 :]):
                return False
            op = op.parent.operation
            if op.name in ("scf.for", "scf.while"):
                return False
        return True

    def _may_share(self, argument: ir.Value, value: ir.Value, body: ir.Block) -> bool:
        """Whether ``value``, the next ``argument``, can overwrite it as soon as it is computed.

        Next to a bounds check what is computed from ``argument`` may be computed once more, behind the check.
        """
        if any(map(self._work.bounds.is_check, operations(body))):
            return False
        order = {op: number for number, op in enumerate(operations(body))}
        owner = owner_of(value)
        if owner not in order or owner in self._work.meets or len(list(value.uses)) != 1:
            return False
        if (
            self._work.uniformity.uniform(value)
            or self._work.recompute.possible(owner)
            or value in self._work.slots
        ):
            return False
        users = [_ancestor_in(use.owner.operation, order) for use in argument.uses]
        return all(user is not None and order[user] <= order[owner] for user in users)


def first_meeting(op: ir.Operation) -> str:
    """Name of the first op in ``op`` for which work-items wait."""
    first = _first(op, GROUP_OPS)
    return str(first.attributes[WAITS_FOR].value if WAITS_FOR in first.attributes else first.name)


def _first(op: ir.Operation, names: frozenset[str]) -> ir.Operation:
    return next(inner for inner in nested(op) if inner.name in names)


def _first_in(block: ir.Block, names: frozenset[str]) -> ir.Operation:
    return next(inner for op in operations(block) for inner in nested(op) if inner.name in names)


def owner_of(value: ir.Value) -> ir.Operation | None:
    """The op that defines ``value``; ``None`` for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _ancestor_in(op: ir.Operation, order: Mapping[ir.Operation, int]) -> ir.Operation | None:
    while op is not None and op not in order:
        op = op.parent.operation if op.parent is not None else None
    return op
