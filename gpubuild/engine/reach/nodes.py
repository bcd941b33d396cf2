"""Nodes: what a kernel is made of, as far as it decides who comes where, for work-items that walk through it.

Definitions are asked for values when somebody needs them; steps are taken in the order of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

from mlir import ir

from gpubuild.engine.reach import sites
from gpubuild.engine.reach.integers import Fold, signed
from gpubuild.engine.reach.trace import Choice, Meeting, Trace
from gpubuild.engine.reach.values import OWN, Value

if TYPE_CHECKING:
    from gpubuild.engine.reach.walk import Walk

_TURNS = 16  # of a loop that are walked; of the others it is known only that there are as many


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
class Pick:
    """One of several regions, which a value decides; ``None`` is one that is not there."""

    at: Frame
    selector: Definition
    condition: int  # the slot of what a user sees as the condition; negative if there is none
    cases: dict[int, int]
    default: int
    ways: tuple[Region | None, ...]

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        value = self.selector.evaluate(walk)
        if value is OWN:
            self.at.untold(walk)
        elif isinstance(value, int):
            if self.at.meets:
                walk.decide(self.at.op, self.condition, value)
            self.at.give(walk, self._take(walk, self.cases.get(value, self.default)))
        else:
            took = [walk.aside(partial(self._take, walk, way)) for way in range(len(self.ways))]
            self.at.choose(walk, (value,), [trace for trace, _ in took], loop=False)
            self.at.give(walk, merged(walk, (self.at.number, value), [values for _, values in took]))

    def _take(self, walk: Walk, way: int) -> Sequence[Value]:
        region = self.ways[way]
        return [] if region is None else walk.region(region, [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """``scf.for`` and ``affine.for``: bounds and step, then what is carried around."""

    at: Frame
    bounds: tuple[Definition, Definition, Definition]
    unsigned: bool
    width: int
    initial: tuple[int, ...]
    body: Region

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        lower, upper, step = bounds = tuple(bound.evaluate(walk) for bound in self.bounds)
        carried = [walk.value(slot) for slot in self.initial]
        if OWN in bounds:
            self.at.untold(walk)
        elif isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
            self._counted(walk, lower, self._turns(lower, upper, step), step, carried)
        else:
            first, _ = walk.aside(lambda: walk.region(self.body, [lower, *carried]))
            self.at.choose(walk, bounds, [first, self._later(walk, bounds)], loop=True)
            self.at.give(walk, None)

    def _later(self, walk: Walk, bounds: tuple[Value, ...]) -> Trace:
        """Any turn but the first."""
        counter = walk.symbol((self.at.number, *bounds))
        return walk.aside(lambda: walk.region(self.body, [counter, *(OWN for _ in self.initial)]))[0]

    def _turns(self, lower: int, upper: int, step: int) -> int:
        if not self.unsigned:
            lower, upper, step = (signed(v, self.width) for v in (lower, upper, step))
        if step <= 0:
            raise StoppedError  # nothing is defined
        return max(0, -(-(upper - lower) // step))

    def _counted(self, walk: Walk, lower: int, turns: int, step: int, carried: list[Value]) -> None:
        for turn in range(min(turns, _TURNS)):
            if self.at.meets:
                walk.decide(self.at.op, -1, 1)
            counter = (lower + turn * step) & ((1 << self.width) - 1)
            carried = list(walk.region(self.body, [counter, *carried]))
        if turns > _TURNS:
            self.at.choose(walk, (turns,), [self._later(walk, (lower, turns, step))], loop=True)
            self.at.give(walk, None)
            return
        if self.at.meets:
            walk.decide(self.at.op, -1, 0)
        self.at.give(walk, carried)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """``scf.parallel``: loops without an order, of which the first turn is walked."""

    at: Frame
    bounds: tuple[tuple[int, int, int], ...]
    body: Region

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        bounds = tuple(walk.value(slot) for bound in self.bounds for slot in bound)
        if OWN in bounds:
            self.at.untold(walk)
            return
        first, _ = walk.aside(lambda: walk.region(self.body, list(bounds[0::3])))
        counters = [walk.symbol((self.at.number, axis, *bounds)) for axis in range(len(self.bounds))]
        later, _ = walk.aside(lambda: walk.region(self.body, counters))
        self.at.choose(walk, bounds, [first, later], loop=True)
        self.at.give(walk, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class While:
    """``scf.while``; the region before ends with the condition and what is passed on."""

    at: Frame
    initial: tuple[int, ...]
    before: Region
    after: Region
    condition: int  # its slot

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        carried = [walk.value(slot) for slot in self.initial]
        for _ in range(_TURNS):
            more, *passed = walk.region(self.before, carried)
            if not isinstance(more, int):
                self._unknown(walk, more, passed)
                return
            if self.at.meets:
                walk.decide(self.at.op, self.condition, more)
            if not more:
                self.at.give(walk, passed)
                return
            carried = list(walk.region(self.after, passed))
        self.at.untold(walk)

    def _unknown(self, walk: Walk, more: Value, passed: list[Value]) -> None:
        if more is OWN:
            self.at.untold(walk)
            return
        turn, _ = walk.aside(lambda: walk.region(self.after, passed))
        self.at.choose(walk, (more,), [turn, Trace(elements=(), known=False)], loop=True)
        self.at.give(walk, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execute:
    """``scf.execute_region`` and calls: a region that all run who come. ``body`` is found when it is."""

    at: Frame
    callee: str  # of a call
    arguments: tuple[int, ...]
    body: Callable[[], Region]

    def run(self, walk: Walk) -> None:
        """See ``Step``."""
        given = [walk.value(slot) for slot in self.arguments]
        with walk.inside(self.callee):
            self.at.give(walk, walk.region(self.body(), given))


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
        walk.elements.append(Meeting(site=sites.describe(self.op, self.number, width)))


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
