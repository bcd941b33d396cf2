"""Control flow around barriers: built once for all work-items of a workgroup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mlir import ir

from gpubuild.engine.cpu.item_loops import for_loop, if_op, set_operands
from gpubuild.engine.cpu.recompute import Recompute
from gpubuild.engine.cpu.slots import CannotFissionError, Slots
from gpubuild.engine.cpu.uniformity import GROUP_OPS, WAITS_FOR, Uniformity, nested, operations, terminator
from gpubuild.engine.emit import Emitter


class Work(Protocol):
    """What is needed of the transformation of a function (engine.cpu.fission)."""

    slots: Slots
    once: dict[ir.Value, ir.Value]
    meets: set[ir.Operation]
    uniformity: Uniformity
    recompute: Recompute

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

        Raises ``CannotFissionError`` where it is not known that all work-items go the same way.
        """
        if op.name == "scf.for":
            self._for(op, pending, emit)
        elif op.name == "scf.if":
            self._if(op, pending, emit)
        else:
            raise CannotFissionError(f"{first_meeting(op)} inside {op.name}")

    def _for(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        if not all(map(self._work.uniformity.uniform, bounds)):
            raise CannotFissionError(f"{first_meeting(op)} in a divergent {op.name}")
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
        self._body(body, Emitter(new_end), leaving)
        following = [self._work.known(v) for v, uniform in zip(end.operands, same, strict=True) if uniform]
        set_operands(new_end, following)
        results = iter(loop.results)
        for result, argument, uniform in zip(op.results, arguments, same, strict=True):
            if uniform:
                self._work.once[result] = next(results)
            else:
                self._work.slots.share(result, argument)

    def _if(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        if not self._work.uniformity.uniform(op.operands[0]):
            raise CannotFissionError(f"{first_meeting(op)} in a divergent {op.name}")
        self._work.flush(pending, emit)
        results = list(op.results)
        same = [r for r in results if self._work.uniformity.uniform(r)]
        branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
        new = if_op(emit, self._work.known(op.operands[0]), [r.type for r in same], len(branches))
        for number, branch in enumerate(branches):
            yielded = list(terminator(branch).operands)
            leaving = [
                (v, self._work.slots.of(r)) for v, r in zip(yielded, results, strict=True) if r not in same
            ]
            end = terminator(new.regions[number].blocks[0])
            self._body(branch, Emitter(end), leaving)
            set_operands(
                end, [self._work.known(v) for v, r in zip(yielded, results, strict=True) if r in same]
            )
        self._work.once.update(zip(same, new.results, strict=True))

    def _body(self, block: ir.Block, emit: Emitter, leaving: list[tuple[ir.Value, ir.Value]]) -> None:
        end = terminator(block)
        rest = self._work.block([op for op in operations(block) if op != end], emit)
        self._work.flush(rest, emit, end, leaving)

    def _may_share(self, argument: ir.Value, value: ir.Value, body: ir.Block) -> bool:
        """Whether ``value``, the next ``argument``, can overwrite it as soon as it is computed."""
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
    first = next(inner for inner in nested(op) if inner.name in GROUP_OPS)
    return str(first.attributes[WAITS_FOR].value if WAITS_FOR in first.attributes else first.name)


def owner_of(value: ir.Value) -> ir.Operation | None:
    """The op that defines ``value``; ``None`` for an argument of a block."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _ancestor_in(op: ir.Operation, order: Mapping[ir.Operation, int]) -> ir.Operation | None:
    while op is not None and op not in order:
        op = op.parent.operation if op.parent is not None else None
    return op
