"""Walk: one work-item's way through a kernel, as far as it is known without running it.

What work-items do does not depend on when others come to a barrier, only on values. So each walks
alone, and a barrier that not all reach is one that two of them come to at different points of their ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.source.reach.decode import Code
from gpubuild.engine.source.reach.effort import Effort
from gpubuild.engine.source.reach.nodes import Block, End, ExhaustedError, Region, StoppedError, merged
from gpubuild.engine.source.reach.trace import Choice, Decision, Element, Trace
from gpubuild.engine.source.reach.values import OWN, Symbol, Value

_STEPS = 20_000  # of one walk
_FORKS = 4  # one after the other, where blocks branch on what is not known
_CALLS = 8
_SLOTS = 16  # that take as long as a step, where all are looked through

Triple = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A launch, and a workgroup of it. ``arguments`` are those of the kernel that are known numbers."""

    block: Triple
    grid: Triple | None = None
    workgroup: Triple = (0, 0, 0)
    subgroup: int = 32
    arguments: tuple[tuple[int, int], ...] = ()
    launch: ir.Operation | None = None
    certain: bool = True  # the launch happens whenever the host function that holds it runs

    @property
    def items(self) -> int:
        """How many work-items the workgroup has."""
        return self.block[0] * self.block[1] * self.block[2]


def place_of(situation: Situation, item: int) -> Triple:
    """The ids of the work-item at position ``item`` of a workgroup, x fastest."""
    x, y, _ = situation.block
    return item % x, item // x % y, item // (x * y)


@dataclass(slots=True, kw_only=True)
class Walk:
    """``item`` is the work-item's position in its workgroup, x fastest."""

    code: Code
    situation: Situation
    item: int
    effort: Effort = field(default_factory=Effort)  # shared by the walks through a kernel
    asked: set[str] = field(default_factory=set)  # which of its own numbers were asked for
    elements: list[Element] = field(default_factory=list)
    _values: dict[int, Value] = field(default_factory=dict)
    _steps: int = _STEPS
    _forks: int = _FORKS
    _callers: list[str] = field(default_factory=list)

    def trace(self, kernel: ir.Operation) -> Trace:
        """What the work-item comes to in ``kernel``."""
        given = dict(self.situation.arguments)
        slots = [self.code.slot(a) for a in kernel.regions[0].blocks[0].arguments]
        arguments = [given.get(place, self.symbol((slot,))) for place, slot in enumerate(slots)]
        try:
            self.region(self.code.region(kernel.regions[0]), arguments)
        except (StoppedError, RecursionError):
            return Trace(elements=tuple(self.elements), known=False)
        return Trace(elements=tuple(self.elements), known=True)

    def value(self, slot: int) -> Value:
        """What stands in ``slot`` now."""
        found = self._values.get(slot)
        if found is None:
            found = self._values[slot] = self.code.definition(slot).evaluate(self)
        return found

    def known(self, slot: int) -> Value:
        """Like :meth:`value`, of what has been defined already."""
        return self._values.get(slot, OWN)

    def define(self, slot: int, value: Value) -> None:
        """Put ``value`` into ``slot``."""
        self._values[slot] = value

    def symbol(self, key: tuple[Value, ...]) -> Symbol:
        """The symbol for what is computed as ``key`` says."""
        return self.code.symbols.setdefault(key, Symbol())

    def tick(self, steps: int = 1) -> None:
        """Count steps.

        Raises ``ExhaustedError`` when this walk has taken too many, ``SpentError`` when all together have.
        """
        self.effort.spend(steps)
        self._steps -= steps
        if self._steps < 0:
            raise ExhaustedError

    def identity(self, what: str, axis: int) -> int | None:
        """A number of the work-item, its workgroup or the launch; ``None`` where it is not known."""
        given = self.situation
        if what in {"lane", "subgroup", "subgroups", "subgroup_size"}:
            self.asked |= {"lane"} if what in {"subgroups", "subgroup_size"} else {"lane", "item"}
            return {
                "lane": self.item % given.subgroup,
                "subgroup": self.item // given.subgroup,
                "subgroups": -(-given.items // given.subgroup),
                "subgroup_size": given.subgroup,
            }[what]
        if what == "block_dim":
            return given.block[axis]
        if what == "grid_dim":
            return given.grid[axis] if given.grid else None
        self.asked.add("workgroup" if what == "block" else "item")
        if what == "block":
            return given.workgroup[axis]
        if what == "thread":
            return place_of(given, self.item)[axis]
        self.asked.add("workgroup")
        return given.workgroup[axis] * given.block[axis] + place_of(given, self.item)[axis]

    def decide(self, op: ir.Operation, slot: int, outcome: int) -> None:
        """Note that the value in ``slot`` (negative: the number of turns) has sent it one way."""
        condition = self.code.values[slot] if slot >= 0 else None
        self.elements.append(Decision(op=op, condition=condition, outcome=outcome))

    @contextmanager
    def inside(self, callee: str) -> Iterator[None]:
        """In a call. Functions that call themselves are not followed."""
        if callee and (callee in self._callers or len(self._callers) >= _CALLS):
            raise StoppedError
        self._callers.append(callee)
        try:
            yield
        finally:
            self._callers.pop()

    def aside(self, way: Callable[[], Sequence[Value]]) -> tuple[Trace, Sequence[Value] | None]:
        """What it comes to on a way that it may take, and what comes out of that."""
        before, self.elements = self.elements, []
        try:
            values: Sequence[Value] | None = way()
        except ExhaustedError:
            raise
        except StoppedError:
            values = None
        finally:
            taken, self.elements = self.elements, before
        return Trace(elements=tuple(taken), known=values is not None), values

    def region(self, region: Region, arguments: Sequence[Value]) -> Sequence[Value]:
        """Go through ``region``; what it hands on at its end. Raises ``StoppedError``."""
        return self._blocks(region.entry(), arguments, meets=region.meets)

    def _blocks(self, block: Block, arguments: Sequence[Value], *, meets: bool) -> Sequence[Value]:
        while True:
            self._enter(block, arguments)
            for step in block.steps:
                step.run(self)
            end = block.end
            if end is None:
                raise StoppedError
            if not end.targets:
                return [self.value(slot) for slot in end.operands]
            way = end.default
            if end.selector >= 0:
                value = self.value(end.selector)
                if isinstance(value, Symbol):
                    return self._fork(end, value, meets=meets)
                if meets:
                    self.decide(end.op, end.selector, value)
                way = end.cases.get(value, end.default)
            following, slots = end.targets[way]
            arguments = [self.value(slot) for slot in slots]
            block = following()

    def _enter(self, block: Block, arguments: Sequence[Value]) -> None:
        self.tick(1 + len(block.steps) + len(block.slots) // _SLOTS)
        for slot in block.slots:
            self._values.pop(slot, None)
        for slot, value in zip(block.arguments, arguments, strict=False):
            self._values[slot] = value

    def _fork(self, end: End, value: Symbol, *, meets: bool) -> Sequence[Value]:
        """Take all ways to the end of the region."""
        if value is OWN or self._forks == 0:
            raise StoppedError
        self._forks -= 1
        saved, traces, results = self._values, [], []
        for following, slots in end.targets:
            self.tick(len(saved) // _SLOTS)
            self._values = dict(saved)

            def way(
                following: Callable[[], Block] = following, slots: tuple[int, ...] = slots
            ) -> Sequence[Value]:
                given = [self.value(slot) for slot in slots]
                return self._blocks(following(), given, meets=meets)

            trace, values = self.aside(way)
            traces.append(trace)
            results.append(values)
        self._values = saved
        self._forks += 1
        if meets:
            self.elements.append(Choice(op=end.op, key=(value,), ways=tuple(traces), loop=False))
        if not all(trace.known for trace in traces):
            raise StoppedError
        both = merged(self, (value, *(0 for _ in traces)), results)
        return both if both is not None else [OWN for _ in results[0] or ()]
