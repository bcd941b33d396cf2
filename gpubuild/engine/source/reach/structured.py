"""Structured: how a work-item walks through operations with regions, and through calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpubuild.engine.source.reach.integers import signed
from gpubuild.engine.source.reach.nodes import Definition, Frame, Region, StoppedError, merged
from gpubuild.engine.source.reach.trace import Trace
from gpubuild.engine.source.reach.values import OWN, Value

if TYPE_CHECKING:
    from gpubuild.engine.source.reach.walk import Walk

_TURNS = 16  # of a loop that are walked; the others are told as one that stands for them


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
