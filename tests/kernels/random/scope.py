"""What random kernels are made of: values, a workgroup under evaluation, and what a statement may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES = {**INTS, **FLOATS, "i1": np.bool_}
CELLS = {"addi": np.add, "maxs": np.maximum, "mins": np.minimum, "ori": np.bitwise_or, "xori": np.bitwise_xor}
REAL_CELLS = {"addf": np.add, "maximumf": np.maximum, "minimumf": np.minimum}
SUBGROUP = 32
MOST = 1024  # work-items in a workgroup


@dataclass(frozen=True)
class Value:
    """A name in the kernel; ``lanes`` is 0 for a scalar."""

    name: str
    kind: str
    lanes: int = 0

    @property
    def text(self) -> str:
        return f"vector<{self.lanes}x{self.kind}>" if self.lanes else self.kind


@dataclass
class Group:
    """One workgroup while it is evaluated."""

    block: int
    shape: tuple[int, ...]
    a: np.ndarray
    d: np.ndarray  # may be the same memory
    cells: np.ndarray
    real_cells: np.ndarray
    private_kind: str
    subgroup: int = SUBGROUP  # work-items of a whole one
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items, self.nx = int(np.prod(self.shape)), self.shape[0]
        self.t = np.arange(self.items)
        self.x = self.t % self.nx
        self.own = np.zeros(self.items, np.int32)
        self.private = np.zeros((self.items, 4), DTYPES[self.private_kind])

    def by_subgroups(self, values: np.ndarray, reduce: Callable[[np.ndarray], object]) -> np.ndarray:
        """``reduce`` of each subgroup's values, given to all of its work-items; the last may be smaller."""
        result = np.empty_like(values)
        for first in range(0, self.items, self.subgroup):
            mine = slice(first, first + self.subgroup)
            result[mine] = reduce(values[mine])
        return result


Step = Callable[[Group, np.ndarray], None]


@dataclass
class Scope:
    """What a statement may use; inner scopes begin with copies."""

    values: list[Value]
    same: list[Value]  # i32 values that are the same for all work-items
    steps: list[Step]
    depth: int
    together: bool  # whether all work-items come here
    lanes: bool  # whether all of a subgroup do

    def inner(self, more: list[Value], same: list[Value], together: bool, lanes: bool) -> Scope:
        return Scope([*self.values, *more], [*self.same, *same], [], self.depth + 1, together, lanes)

    def of(self, *kinds: str, lanes: bool = False) -> list[Value]:
        return [v for v in self.values if v.kind in kinds and bool(v.lanes) is lanes]


def put(array: np.ndarray, mask: np.ndarray, values: np.ndarray) -> None:
    """What the work-items of ``mask`` store, each to its own element."""
    array[mask] = values[mask]


def where(mask: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """The values of work-items, of which those of ``mask`` have new ones."""
    return np.where(mask[:, None] if new.ndim == 2 else mask, new, old)
