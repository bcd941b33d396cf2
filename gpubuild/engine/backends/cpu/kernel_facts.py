"""Facts about kernels that their image records: the tier of each, its memory, its memref parameters.

The tier decides how the work-items of a workgroup run. ``LOOP`` runs them one after the other in a loop nest
that LLVM can vectorise, for kernels without barriers. ``FISSION`` has cut a kernel at its barriers into
several such nests (``fission/``). ``FIBERS`` gives each work-item a stack, for kernels that cannot be cut.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import IntEnum

from mlir import ir


class Tier(IntEnum):
    """Values are those of ``enum gb_cpu_tier`` in runtime/cpu/cpu_image.h."""

    LOOP = 0
    FIBERS = 1
    FISSION = 2

    @property
    def label(self) -> str:
        """The tier's name in ``info``."""
        return self.name.lower()


@dataclass(slots=True, kw_only=True)
class FunctionFacts:
    """Facts that decide a function's tier: the first operation that waits, and the callees.

    ``stack_bytes`` is the size of its private arrays; ``None`` where it is known at run time only.
    """

    name: str
    waits: str = ""  # "gpu.barrier", or "gpu.barrier at file:line"
    cluster_barrier: bool = False
    calls: list[str] = field(default_factory=list)
    stack_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChoice:
    """A kernel's tier and the reason why it is not ``LOOP``."""

    tier: Tier
    reason: str = ""
    cluster_barrier: bool = False


def choose_tiers(
    facts: Iterable[FunctionFacts],
    fissioned: Collection[str] = (),
    refused: Mapping[str, str] | None = None,
) -> dict[str, TierChoice]:
    """Return the tier of every function: not ``LOOP`` when it or a function that it reaches waits.

    ``fissioned`` functions have a function for a workgroup; ``refused`` has the reasons why others do not.
    """
    by_name = {f.name: f for f in facts}
    chosen: dict[str, TierChoice] = {}
    for name, own in by_name.items():
        reached = reachable(name, by_name)
        waiting = own if own.waits else next((f for f in reached if f.waits), None)
        if waiting is None:
            chosen[name] = TierChoice(tier=Tier.LOOP)
            continue
        reason = waiting.waits if waiting is own else f"calls @{waiting.name}, which has {waiting.waits}"
        if name in fissioned:
            chosen[name] = TierChoice(tier=Tier.FISSION, reason=reason)
            continue
        if refused and name in refused:
            reason += f"; no fission: {refused[name]}"
        chosen[name] = TierChoice(
            tier=Tier.FIBERS,
            reason=reason,
            cluster_barrier=any(f.cluster_barrier for f in reached),
        )
    return chosen


def reachable(name: str, by_name: Mapping[str, FunctionFacts]) -> list[FunctionFacts]:
    """Return ``name`` and all functions that it calls, directly or not, nearest first."""
    order = [name]
    for current in order:
        order.extend(c for c in by_name[current].calls if c in by_name and c not in order)
    return [by_name[n] for n in order]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemrefParameter:
    """A memref whose descriptor is LLVM's parameters from ``first`` on.

    Sizes, strides and the offset count elements; ``None`` where only the parameters have them.
    """

    first: int
    element_bytes: int
    written: bool
    filled: bool  # row by row, without gaps in a row, by a kernel that does little else
    offset: int | None
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All parameters of a kernel: their number in LLVM IR, and the memrefs among them.

    ``block`` is the likely size of a workgroup; 0: any.
    """

    count: int
    memrefs: tuple[MemrefParameter, ...]
    block: tuple[int, int, int] | None = None

    @property
    def filled(self) -> tuple[MemrefParameter, ...]:
        """The memrefs that the kernel fills; see nontemporal."""
        return tuple(memref for memref in self.memrefs if memref.filled)

    def attribute(self) -> ir.Attribute:
        """Return a string with all facts, which :meth:`of_attribute` reads."""
        return ir.StringAttr.get(str(asdict(self)))

    @classmethod
    def of_attribute(cls, attribute: ir.Attribute) -> Parameters:
        """Return the facts in an attribute."""
        entries = literal_eval(ir.StringAttr(attribute).value)
        memrefs = tuple(MemrefParameter(**memref) for memref in entries["memrefs"])
        return cls(count=entries["count"], memrefs=memrefs, block=entries["block"])


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """A kernel after lowering. ``required_block`` is (0, 0, 0) when it runs with any workgroup size."""

    name: str
    tier: TierChoice
    shared_bytes: int  # of workgroup memory
    context_bytes: int  # of the arrays that keep values of work-items across barriers
    required_block: tuple[int, int, int]
    max_items: int
    workgroup: str | None  # the function that runs a whole workgroup, in the fission tier
    streams: bool = False  # its time depends on memory alone
    stack_units: int = 0  # of image_layout.STACK_UNIT; 0 where any thread's stack suffices
    alias_versions: Parameters | None = None  # if it has a version for arguments that do not overlap
    coalesced: bool = False  # workgroups side by side may run as one
    large: bool = False  # has a block with so many operations that LLVM must not vectorise it
