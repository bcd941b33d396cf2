"""State of a legalization: what passes read about the target, and what they leave for later ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.support.frozen import frozen


class Shuffles(Enum):
    """How the lanes of a subgroup read each other's values."""

    NAMED = auto()  # the lanes that take part name each other, and each of them must come
    REGISTERS = auto()  # a lane reads a register of any other, whether that comes here or not
    MEMORY = auto()  # as NAMED, and reading a lane that does not exist gives some value


@frozen
class Capabilities:
    """What a target can do, as far as passes of this package differ by it.

    ``dialects`` and ``intrinsics`` are those of one vendor that it takes: names of dialects, and the
    first words of intrinsics' names behind ``llvm.``.
    """

    devices: str  # for messages, such as "AMD GPUs"
    subgroup_size: int
    shuffles: Shuffles
    dialects: frozenset[str] = frozenset()
    intrinsics: frozenset[str] = frozenset()
    exchanges_lanes: bool = True  # work-items of a subgroup can read each other's registers
    clusters: bool = True  # of workgroups
    private_space: int = 0  # number of the address space of a work-item's own memory
    private_variables: bool = True  # memref.global can lie there
    memory_spaces: range | None = None  # the numbers there are; None: any
    wide_floats: bool = False  # f80 and f128 can be passed on
    widest_all_reduce: int | None = 64  # bits; None: any


@dataclass(slots=True, kw_only=True)
class Legalization:
    """One lowering under way; back ends add what theirs need."""

    source: SourceText
    capabilities: Capabilities
    target: str = ""  # its name, for messages
    fast_math: bool = False
    finite_only: bool = False  # no number is infinite or NaN
    exact_roots: bool = True  # square roots are rounded correctly, also with fast mathematics
    warnings: list[str] = field(default_factory=list)
