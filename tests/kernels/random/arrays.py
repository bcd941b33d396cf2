"""Memrefs of random kernels: every layout, sizes beside the grid's, memory that several arguments share.

Work-items own elements by their place in the grid: an array of the shape ``*yx`` has an element for each of
``*`` in the column of the work-item at x and y. An array that is not written may be read everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
DTYPES = {**FLOATS, **INTS}
_KINDS = ["f32"] * 5 + ["f64", "i32", "i32", "i64", "i8", "i16", "f16"]
_STATIC, _DYNAMIC, _ROWS, _ANY = "static", "dynamic", "rows", "any"
_READ = {1: ["x", "x", "x*", "*x", "**x", "c"], 2: ["yx", "yx", "xy", "*yx", "y*x", "yx*", "x", "*x"]}
_WRITTEN = {1: ["x", "x", "x", "x*", "*x"], 2: ["yx", "yx", "xy", "*yx", "y*x", "yx*"]}


@dataclass(frozen=True, kw_only=True)
class Array:
    """A memref parameter. ``sizes`` are by the letters of ``shape``.

    ``twin`` is the number of the parameter that has the same elements, or, if ``between``, those in between.
    """

    number: int
    kind: str
    role: str  # "in" is read, "out" is written; of "both", work-items read what they own
    shape: str
    sizes: tuple[int, ...]
    layout: str
    twin: int | None = None
    between: bool = False

    @property
    def name(self) -> str:
        return f"%P{self.number}"

    @property
    def type(self) -> str:
        sizes = "x".join(str(size) if self.layout == _STATIC else "?" for size in self.sizes)
        steps = ["?"] * (len(self.sizes) - 1) + ["1" if self.layout == _ROWS else "?"]
        strided = f", strided<[{', '.join(steps)}], offset: ?>" if self.layout in (_ROWS, _ANY) else ""
        return f"memref<{sizes}x{self.kind}{strided}>"

    def extent(self, axis: int) -> str:
        """The name of the value that is its size on ``axis``."""
        return f"%d{self.number}_{axis}"


def random_arrays(source: random.Random, extents: dict[str, int]) -> list[Array]:
    """Two to six; ``extents`` are those of the axes of the grid that there are."""
    found: list[Array] = []
    for number in range(source.randint(2, 5)):
        role = ["in", "out"][number] if number < 2 else source.choice(["in", "in", "out", "both"])
        shape = source.choice((_READ if role == "in" else _WRITTEN)[len(extents)])
        sizes = tuple(
            extents[axis] if axis in extents else source.choice([1, 3, 4, 8, 17, 40]) for axis in shape
        )
        found.append(
            Array(number=number, kind=source.choice(_KINDS), role=role, shape=shape, sizes=sizes,
                  layout=source.choice([_STATIC, _DYNAMIC, _DYNAMIC, _ROWS, _ANY, _ANY]))
        )  # fmt: skip
    chance = source.random()
    shared = source.choice([array for array in found if array.role != "in"])
    if chance < 0.3:
        found[shared.number] = replace(shared, role="both")
        layout = shared.layout if shared.layout != _STATIC else _ANY
        found.append(replace(shared, number=len(found), role="both", layout=layout, twin=shared.number))
    elif chance < 0.6:
        found[shared.number] = replace(shared, layout=_ANY)
        role = source.choice(["in", "out", "both"])
        found.append(
            replace(shared, number=len(found), role=role, layout=_ANY, twin=shared.number, between=True)
        )
    return found


def contents(arrays: list[Array], seed: int) -> list[np.ndarray]:
    """What they hold before a launch, in memory of their layouts, which arrays with a twin share."""
    numbers, source = np.random.default_rng(seed), random.Random(seed)
    found: list[np.ndarray] = []
    between: dict[int, np.ndarray] = {}
    for array in arrays:
        if array.twin is not None:
            found.append(between[array.twin] if array.between else found[array.twin])
            continue
        steps = [1] * len(array.sizes)
        if any(other.twin == array.number and other.between for other in arrays):
            steps[-1] = 2
        elif array.layout == _ANY:
            steps = [source.choice([1, 1, 2]) for _ in steps]
        room = [size * step for size, step in zip(array.sizes, steps, strict=True)]
        room[-1] += source.choice([0, 1, 3, 8]) * (array.layout == _ROWS)
        order = list(range(len(room)))
        if array.layout == _ANY:
            source.shuffle(order)
        whole = numbers.integers(-100, 100, [room[axis] for axis in order]).astype(DTYPES[array.kind])
        if array.kind in FLOATS:
            whole /= 4
        whole = whole.transpose(np.argsort(order))
        if array.layout == _ROWS:
            whole = whole[..., whole.shape[-1] - array.sizes[-1] :]
        turns = [source.choice([1, -1]) if array.layout == _ANY else 1 for _ in steps]
        found.append(_view(whole, steps, turns, 0))
        between[array.number] = _view(whole, steps, turns, steps[-1] - 1)
    return found


def _view(whole: np.ndarray, steps: list[int], turns: list[int], first: int) -> np.ndarray:
    """Every so many elements on each axis, from ``first`` on along the last one; then some axes reversed."""
    starts = [0] * (len(steps) - 1) + [first]
    picked = whole[tuple(slice(start, None, step) for start, step in zip(starts, steps, strict=True))]
    return picked[tuple(slice(None, None, turn) for turn in turns)]
