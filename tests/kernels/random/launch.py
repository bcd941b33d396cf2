"""Launches of random kernels: shapes, arguments, and the comparison with what the evaluator says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from kernels.random.kernel import RandomKernel
from kernels.random.scope import MOST

GRID = 4  # workgroups
ORDER = "ACFKLDR"  # of the parameters
SHAPES = [(1,), (33,), (8, 4, 2), (7, 5), (64, 2), (31,), (3, 5, 7), (96,)]
WHOLE_SUBGROUPS = [(32,), (64, 2), (8, 4, 5)]
FLAT = [(1,), (33,), (64,), (200,)]


def shapes(kernel: RandomKernel, number: int) -> list[tuple[int, ...]]:
    """Two for each kernel, which do not cost much once it is compiled; the largest now and then."""
    if kernel.known:
        return [kernel.known]
    if number % 40 == 3:
        return [(MOST,)]
    known = FLAT if kernel.flat else WHOLE_SUBGROUPS if kernel.subgroups and kernel.whole else SHAPES
    return [known[(number + i) % len(known)] for i in range(2)]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch of a kernel. ``arrays`` are its arguments, by name; a launch changes them."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    arrays: Mapping[str, np.ndarray]
    expected: Any

    @classmethod
    def of(cls, kernel: RandomKernel, number: int, block: tuple[int, ...]) -> Launch:
        a = np.random.default_rng(number).integers(-1000, 1000, GRID * int(np.prod(block))).astype(np.int32)
        expected = kernel.evaluate(a.copy(), GRID, block)
        arrays = {name: np.zeros_like(array) for name, array in expected.arrays.items()}
        arrays["R"], arrays["A"] = arrays["R"].astype(np.float32), a
        if kernel.shares:
            arrays["D"] = a
        grid = (2, GRID // 2) if number % 2 else (GRID,)
        return cls(grid=grid, block=block, arrays=arrays, expected=expected)

    @property
    def values(self) -> tuple[np.ndarray, ...]:
        """The arguments in the order of the parameters."""
        return tuple(self.arrays[name] for name in ORDER)

    def difference(self, found: Mapping[str, np.ndarray]) -> str:
        """The first result that is not what the evaluator says; empty when there is none."""
        for name, wanted in self.expected.arrays.items():
            if (wrong := self.expected.wrong(name, found[name])).size:
                at = wrong[0]
                return (
                    f"{self.block}: %{name}[{at}] is {found[name][at]}, not {wanted[at]}, {wrong.size} differ"
                )
        return ""
