"""What random kernels are made of: values, a workgroup under evaluation, and what a statement may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

INTS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64}
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES = {**INTS, **FLOATS, "i1": np.bool_}
CELLS = {"addi": np.add, "maxs": np.maximum, "mins": np.minimum, "ori": np.bitwise_or, "xori": np.bitwise_xor}
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
    items: int
    a: np.ndarray
    cells: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.own = np.zeros(self.items, np.int32)
        self.private = np.zeros((self.items, 4), np.int32)


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
