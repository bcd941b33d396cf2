"""Nodes: what a kernel is made of, as far as it decides who comes where, for work-items that walk through it.

Definitions are asked for values when somebody needs them; steps are taken in the order of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from mlir import ir

from gpubuild.engine.source.reach.integers import Fold
from gpubuild.engine.source.reach.trace import Choice, Meeting, Trace, describe
from gpubuild.engine.source.reach.values import OWN, Value

if TYPE_CHECKING:
    from gpubuild.engine.source.reach.walk import Walk


class StoppedError(Exception):
    """Nothing is known of what this work-item comes to next."""


class ExhaustedError(StoppedError):
    """The walk has become too long."""


class Definition(Protocol):
    """Where a value comes from."""

    def evaluate(self, walk: Walk) -> Value:
        """The value now."""


class Step(Protocol):
    """An operation that decides who comes where, or that work-items must reach together."""

    def run(self, walk: Walk) -> None:
        """Take it. Raises ``StoppedError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A number, or ``OWN`` for what is never known."""

    value: Value

    def evaluate(self, _: Walk) -> Value:
        """See ``Definition``."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What stands in a slot."""

    slot: int

    def evaluate(self, walk: Walk) -> Value:
        """See ``Definition``."""
        return walk.value(self.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who asks: a number of the work-item, the workgroup or the launch."""

    what: str
    axis: int
    mask: int
    number: int

    def evaluate(self, walk: Walk) -> Value:
        """See ``Definition``."""
        value = walk.identity(self.what, self.axis)
        return walk.symbol((self.number,)) if value is None else value & self.mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A pure operation: from the same operands it gives the same."""

    number: int
    operands: tuple[int, ...]
    fold: Fold | None
    absorbs: int | None

    def evaluate(self, walk: Walk) -> Value:
        """See ``Definition``."""
        walk.tick()
        values = [walk.value(slot) for slot in self.operands]
        numbers = [v for v in values if isinstance(v, int)]
        if self.fold is not None and len(numbers) == len(values):
            result = self.fold(numbers)
            return OWN if result is None else result
        if self.absorbs is not None and self.absorbs in numbers:
            return self.absorbs
        return OWN if OWN in values else walk.symbol((self.number, *values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """One of two values."""

    number: int
    condition: int
    yes: int
    no: int

    def evaluate(self, walk: Walk) -> Value:
        """See ``Definition``."""
        condition = walk.value(self.condition)
        if isinstance(condition, int):
            return walk.value(self.yes if condition else self.no)
        both = merged(walk, (self.number, condition), [[walk.value(self.yes)], [walk.value(self.no)]])
        return OWN if both is None else both[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a structured operation gives at which nobody meets: it is run when somebody asks."""

    step: Step
    slot: int

    def evaluate(self, walk: Walk) -> Value:
        """See ``Definition``."""
        try:
            self.step.run(walk)
        except ExhaustedError:
            raise
        except StoppedError:
            return OWN
        return walk.known(self.slot)


@dataclass(slots=True, kw_only=True)
class Block:
    """A block; ``slots`` are of values defined in it, which are others each time it is entered."""

    arguments: tuple[int, ...]
    slots: list[int] = field(default_factory=list)
    steps: Sequence[Step] = ()
    end: End | None = None  # None: nobody comes out of it, or nobody knows where


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where a block goes on: out of its region with ``operands``, or to other blocks of it."""

    op: ir.Operation
    operands: tuple[int, ...] = ()
    selector: int = -1
    cases: dict[int, int] = field(default_factory=dict)
    default: int = 0
    targets: tuple[tuple[Callable[[], Block], tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Blocks, of which the first is entered. ``meets``: work-items meet somewhere in them."""

    entry: Callable[[], Block]
    meets: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """An operation with regions or a call: what all of them have."""

    op: ir.Operation
    number: int
    results: tuple[int, ...]
    meets: bool

    def give(self, walk: Walk, values: Sequence[Value] | None) -> None:
        """Define the results; nothing is known of them where there are no values."""
        for place, slot in enumerate(self.results):
            walk.define(slot, OWN if values is None else values[place])

    def untold(self, walk: Walk) -> None:
        """The way on is not known, nor that others go the same. Raises ``StoppedError`` where it matters."""
        if self.meets:
            raise StoppedError
        self.give(walk, None)

    def choose(self, walk: Walk, key: tuple[Value, ...], ways: Sequence[Trace], *, loop: bool) -> None:
        """Note that one of ``ways`` is taken. Raises ``StoppedError`` if nobody knows where one leads."""
        if not self.meets:
            return
        walk.elements.append(Choice(op=self.op, key=key, ways=tuple(ways), loop=loop))
        if not all(way.known for way in ways):
            raise StoppedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet:
    """A site; the width of a shuffle is a number or the value in a slot."""

    op: ir.Operation
    number: int
    width: int | None = None
    width_slot: int = -1

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        width = self.width if self.width is not None else -1
        if self.width_slot >= 0 and isinstance(value := walk.value(self.width_slot), int):
            width = value
        walk.elements.append(Meeting(site=describe(self.op, self.number, width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """``cf.assert``: nobody comes past one that fails."""

    condition: int

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        if walk.value(self.condition) == 0:
            raise StoppedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Something of which nobody knows whether it comes back, or who must take part."""

    def run(self, _: Walk) -> None:
        """See ``Step``."""
        raise StoppedError


def merged(walk: Walk, key: tuple[Value, ...], ways: Sequence[Sequence[Value] | None]) -> list[Value] | None:
    """What an operation gives of which one of ``ways`` was taken, and it is not known which."""
    known = [way for way in ways if way is not None]
    if len(known) != len(ways) or OWN in key:
        return None
    results: list[Value] = []
    for number, values in enumerate(zip(*known, strict=True)):
        if all(v is values[0] or v == values[0] for v in values):
            results.append(values[0])
        else:
            results.append(OWN if OWN in values else walk.symbol((*key, number, *values)))
    return results
