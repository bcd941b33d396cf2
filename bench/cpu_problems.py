"""Problems of bench/cpu_kernels.py: data, launch shapes, and what the right results are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

LENGTH, SIDE, CUBE, BLOCK, BINS = 1 << 24, 4096, 256, 256, 256
GROUPS = 1024  # of the histogram; kernels.c says so, too
Arrays = list["np.ndarray[Any, Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One row of the table. ``arrays()`` makes inputs, then one output; ``size`` is what C gets last."""

    title: str
    kernel: str
    size: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    arrays: Callable[[], Arrays]
    expected: Callable[[Arrays], np.ndarray[Any, Any]]
    tolerance: float = 1e-5
    peer: str = ""  # the kernel in OpenCL C and plain C, when it is not called the same
    sized: bool = True  # whether the kernel in OpenCL C takes the size
    items: bool = True  # whether kernels.c has it with work-items as inner loops
    flat: bool = False  # whether each half of every array is a problem of half the size

    @property
    def peer_kernel(self) -> str:
        return self.peer or self.kernel


def _random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).random(shape, np.float32)


def _zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


def _matmul(kernel: str, n: int) -> Problem:
    name = kernel.removeprefix("matmul_")
    return Problem(
        title=f"matmul {n}³, {name}",
        kernel=kernel,
        size=n,
        grid=(n // 16, n // 16),
        block=(16, 16),
        arrays=lambda: [_random(n, n), _random(n, n) - np.float32(0.5), _zeros(n, n)],
        expected=lambda a: a[0] @ a[1],
        tolerance=1e-4,
        items=name == "tiled",
    )


def _sum(title: str, kernel: str) -> Problem:
    return Problem(
        title=title,
        kernel=kernel,
        peer="reduce",
        size=LENGTH,
        grid=(LENGTH // BLOCK,),
        block=(BLOCK,),
        arrays=lambda: [_random(LENGTH), _zeros(LENGTH // BLOCK)],
        expected=lambda a: a[0].reshape(-1, BLOCK).sum(axis=1),
        sized=False,
        flat=True,
    )


def _softmax(a: Arrays) -> np.ndarray[Any, Any]:
    e = np.exp(a[0] - a[0].max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _stencil(a: Arrays) -> np.ndarray[Any, Any]:
    x = a[0]
    out = _zeros(CUBE, CUBE, CUBE)
    sides = x[1:-1, 1:-1, :-2] + x[1:-1, 1:-1, 2:] + x[1:-1, :-2, 1:-1] + x[1:-1, 2:, 1:-1]
    sides += x[:-2, 1:-1, 1:-1] + x[2:, 1:-1, 1:-1]
    out[1:-1, 1:-1, 1:-1] = np.float32(0.4) * x[1:-1, 1:-1, 1:-1] + np.float32(0.1) * sides
    return out


def _values() -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, BINS, LENGTH, np.int32)


PROBLEMS = (
    Problem(
        title="vecadd 2²⁴",
        kernel="vecadd",
        size=LENGTH,
        grid=(LENGTH // BLOCK,),
        block=(BLOCK,),
        arrays=lambda: [_random(LENGTH), _random(LENGTH), _zeros(LENGTH)],
        expected=lambda a: a[0] + a[1],
        sized=False,
        items=False,
        flat=True,
    ),
    _matmul("matmul_tiled", 512),
    _matmul("matmul_tiled", 1024),
    _matmul("matmul_naive", 1024),
    _sum("block reduction 2²⁴, tree", "reduce"),
    _sum("block reduction 2²⁴, all_reduce", "all_reduce"),
    Problem(
        title="exp 2²⁴",
        kernel="exp",
        peer="exp_",
        size=LENGTH,
        grid=(LENGTH // BLOCK,),
        block=(BLOCK,),
        arrays=lambda: [_random(LENGTH) * np.float32(16) - np.float32(8), _zeros(LENGTH)],
        expected=lambda a: np.exp(a[0]),
        sized=False,
        items=False,
        flat=True,
    ),
    Problem(
        title="softmax 4096²",
        kernel="softmax",
        size=SIDE,
        grid=(SIDE,),
        block=(BLOCK,),
        arrays=lambda: [_random(SIDE, SIDE), _zeros(SIDE, SIDE)],
        expected=_softmax,
    ),
    Problem(
        title="stencil 256³",
        kernel="stencil",
        size=CUBE,
        grid=(CUBE // 64, CUBE // 4, CUBE),
        block=(64, 4, 1),
        arrays=lambda: [_random(CUBE, CUBE, CUBE), _zeros(CUBE, CUBE, CUBE)],
        expected=_stencil,
        items=False,
    ),
    Problem(
        title="histogram 2²⁴",
        kernel="histogram",
        size=LENGTH,
        grid=(GROUPS,),
        block=(BLOCK,),
        arrays=lambda: [_values(), np.zeros(BINS, np.int32)],
        expected=lambda a: np.bincount(a[0], minlength=BINS),
        tolerance=0,
    ),
    Problem(
        title="transpose 4096²",
        kernel="transpose",
        size=SIDE,
        grid=(SIDE // 32, SIDE // 32),
        block=(32, 8),
        arrays=lambda: [_random(SIDE, SIDE), _zeros(SIDE, SIDE)],
        expected=lambda a: np.asarray(a[0].T),
        tolerance=0,
    ),
)


def check(problem: Problem, arrays: Arrays) -> None:
    """Raises ``AssertionError`` unless the last array holds the right result, of one run on zeros."""
    expected = problem.expected(arrays)
    np.testing.assert_allclose(arrays[-1], expected, rtol=problem.tolerance, atol=problem.tolerance)
