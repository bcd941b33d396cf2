"""State of a legalization: the target's abilities, and results of passes for later ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.value_names import Names
from gpubuild.support.frozen import frozen


class Shuffles(Enum):
    """How the lanes of a subgroup read each other's values."""

    NAMED = auto()  # a mask names the lanes that take part, and all of them must reach the shuffle
    REGISTERS = auto()  # a lane reads a register of any other, which need not reach the shuffle
    MEMORY = auto()  # as NAMED, and a lane that reads a missing one keeps its own value


@frozen
class Capabilities:
    """The abilities of a target by which passes of this package differ.

    ``dialects`` and ``intrinsics`` are those of one vendor that the target has: names of dialects, and the
    first words of intrinsics' names after ``llvm.``.
    """

    devices: str  # for messages, such as "AMD GPUs"
    subgroup_size: int
    shuffles: Shuffles
    dialects: frozenset[str] = frozenset()
    intrinsics: frozenset[str] = frozenset()
    exchanges_lanes: bool = True  # work-items of a subgroup can read each other's registers
    clusters: bool = True  # of workgroups
    private_space: int = 0  # number of the address space of a work-item's own memory
    private_variables: bool = True  # memref.global can be in private memory
    memory_spaces: range | None = None  # existing numbers; None: any
    wide_floats: bool = False  # values can be f80 and f128
    workgroup_bytes: int | None = None  # of static workgroup memory; None: any number
    widest_all_reduce: int | None = 64  # bits; None: any


@dataclass(slots=True, kw_only=True)
class Legalization:
    """The state of one lowering, which back ends extend."""

    source: SourceText
    capabilities: Capabilities
    target: str = ""  # its name, for messages
    fast_math: bool = False
    finite_only: bool = False  # no number is infinite or NaN
    exact_roots: bool = True  # square roots are rounded correctly, also with fast mathematics
    debug_variables: bool = False
    keep_values: bool = False  # of these in memory
    names: Names = field(default_factory=Names)  # of variables
    warnings: list[str] = field(default_factory=list)
