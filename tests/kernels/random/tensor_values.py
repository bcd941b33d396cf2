"""Values of a random function on tensors, and the lines that make them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

DTYPES = {"i8": np.int8, "i32": np.int32, "i64": np.int64}
SIZES = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 40, 64, 100]
LARGEST = 20_000  # elements
FILLED = -3  # what results begin with
Arrays = dict[str, np.ndarray]
Step = Callable[[Arrays], None]


@dataclass(frozen=True)
class Tensor:
    """A value: its sizes, and which of them its type gives."""

    name: str
    kind: str
    sizes: tuple[int, ...]
    known: tuple[bool, ...]

    @property
    def type(self) -> str:
        sizes = "".join(f"{n}x" if known else "?x" for n, known in zip(self.sizes, self.known, strict=True))
        return f"tensor<{sizes}{self.kind}>"

    @property
    def rank(self) -> int:
        return len(self.sizes)


class TensorValues:
    """The values that a function has so far, its lines, and its operations as steps on arrays."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._lines: list[str] = []
        self._made = 0
        self._steps: list[Step] = []
        self._sizes = self.random.sample(SIZES, self.random.randint(2, 4))
        if self.random.random() < 0.06:
            self._sizes[0] = 0
        self._kinds = self.random.sample(list(DTYPES), self.random.choice([1, 1, 2]))
        ranks = [self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4]) for _ in range(self.random.randint(1, 4))]
        self._values = [self._tensor(self._some_sizes(rank)) for rank in ranks]
        self._indices = {n: f"%n{n}" for n in {*self._sizes, *(n for v in self._values for n in v.sizes)}}

    def _name(self) -> str:
        self._made += 1
        return f"%v{self._made}"

    def _let(self, text: str) -> str:
        name = self._name()
        self._lines.append(f"{name} = {text}")
        return name

    def _some_sizes(self, rank: int) -> tuple[int, ...]:
        sizes = tuple(self.random.choice(self._sizes) for _ in range(rank))
        return sizes if prod(sizes) <= LARGEST else self._some_sizes(rank - 1)

    def _tensor(self, sizes: Sequence[int], kind: str = "", known: Sequence[bool] | None = None) -> Tensor:
        if known is None:
            style = self.random.random()
            known = [style < 0.4 or (style < 0.7 and self.random.random() < 0.5) for _ in sizes]
        return Tensor(self._name(), kind or self.random.choice(self._kinds), tuple(sizes), tuple(known))

    def _index(self, n: int) -> str:
        """An index of this value: a constant, an argument or the extent of a tensor."""
        how = self.random.random()
        extents = [(v, d) for v in self._values for d, size in enumerate(v.sizes) if size == n]
        if how < 0.4 and extents:
            value, d = self.random.choice(extents)
            return self._let(f"tensor.dim {value.name}, {self._constant(d)} : {value.type}")
        return self._indices[n] if how < 0.7 and n in self._indices else self._constant(n)

    def _constant(self, number: int, kind: str = "index") -> str:
        return self._let(f"arith.constant {number} : {kind}")

    def _empty(self, value: Tensor) -> str:
        open_sizes = [n for n, known in zip(value.sizes, value.known, strict=True) if not known]
        return self._let(f"tensor.empty({', '.join(map(self._index, open_sizes))}) : {value.type}")

    def _filled(self, value: Tensor, number: int) -> str:
        empty, scalar = self._empty(value), self._constant(number, value.kind)
        ins = f"ins({scalar} : {value.kind})"
        return self._let(f"linalg.fill {ins} outs({empty} : {value.type}) -> {value.type}")

    def _pick(self, fits: Callable[[Tensor], bool] = lambda _: True) -> Tensor | None:
        found = [v for v in self._values if fits(v)]
        return self.random.choice(found[-5:] if self.random.random() < 0.7 else found) if found else None

    def _add(self, value: Tensor, text: str, compute: Callable[[Arrays], np.ndarray]) -> bool:
        """Add an operation with one result."""
        self._lines.append(f"{value.name} = {text}")
        self._values.append(value)

        def step(arrays: Arrays) -> None:
            arrays[value.name] = np.asarray(compute(arrays), DTYPES[value.kind])

        self._steps.append(step)
        return True

    def _numbers(self, sizes: Sequence[int], kind: str) -> np.ndarray:
        numbers = [self.random.randint(-5, 5) for _ in range(prod(sizes))]
        return np.array(numbers, DTYPES[kind]).reshape(sizes)
