"""Loops of random kernels that carry values: their text, and what they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from kernels.random.scope import Group, Step, Value, where

Bounds = tuple[np.ndarray, np.ndarray | int, np.ndarray | int]  # first, end and step of each work-item


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """An ``scf.for``. ``number`` is its counter as an i32; ``carried`` begin as ``initial``."""

    out: str
    counter: str
    number: Value
    initial: list[Value]
    carried: list[Value]

    @property
    def results(self) -> list[Value]:
        """What the values that are carried are behind the loop."""
        return [Value(f"{self.out}#{i}", v.kind, v.lanes) for i, v in enumerate(self.initial)]

    def opening(self, lower: str, upper: str, by: str) -> tuple[str, str]:
        """The lines before its body."""
        pairs = ", ".join(f"{c.name} = {v.name}" for c, v in zip(self.carried, self.initial, strict=True))
        return (
            f"{self.out}:{len(self.initial)} = scf.for {self.counter} = {lower} to {upper} step {by} "
            f"iter_args({pairs}) -> ({self._types()}) {{",
            f"{self.number.name} = arith.index_cast {self.counter} : index to i32",
        )

    def closing(self, follow: list[Value]) -> tuple[str, str]:
        """The lines behind its body, which goes on with ``follow``."""
        return f"scf.yield {', '.join(v.name for v in follow)} : {self._types()}", "}"

    def step(self, steps: list[Step], follow: list[Value], bounds: Callable[[Group], Bounds]) -> Step:
        """What evaluates it, given what evaluates its body."""

        def step(g: Group, mask: np.ndarray) -> None:
            at, stop, stride = bounds(g)
            state = [g.values[v.name] for v in self.initial]
            while (active := mask & (at < stop)).any():
                g.values.update({v.name: s for v, s in zip(self.carried, state, strict=True)})
                g.values[self.number.name] = at.astype(np.int32)
                for inner in steps:
                    inner(g, active)
                state = [where(active, g.values[v.name], s) for v, s in zip(follow, state, strict=True)]
                at = at + stride
            g.values.update({v.name: s for v, s in zip(self.results, state, strict=True)})

        return step

    def _types(self) -> str:
        return ", ".join(v.text for v in self.initial)


class Loops:
    """Mixed into RandomKernel."""

    def _loop(self, initial: list[Value]) -> Loop:
        out, counter, number = self._name(), self._name(), Value(self._name(), "i32")
        carried = [Value(self._name(), v.kind, v.lanes) for v in initial]
        return Loop(out=out, counter=counter, number=number, initial=initial, carried=carried)
