"""Facts about kernels that their image records: the tier of each, its memory, its memref parameters.

The tier is the way in which the work-items of a workgroup are run. ``LOOP`` runs them one after the other
in a loop nest that LLVM can vectorise, which is right as long as none waits for another. ``FISSION`` has
cut a kernel at its barriers into several such nests (``fission/``). ``FIBERS`` gives each work-item a stack
of its own, for what cannot be cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
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
    """What decides a function's tier: the first operation that waits, and the functions it calls.

    ``stack_bytes`` is the size of its private arrays; ``None`` where that is known at run time only.
    """

    name: str
    waits: str = ""  # "gpu.barrier", or "gpu.barrier at file:line"
    cluster_barrier: bool = False
    calls: list[str] = field(default_factory=list)
    stack_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChoice:
    """A kernel's tier and why no simpler one will do; the reason is empty for ``LOOP``."""

    tier: Tier
    reason: str = ""
    cluster_barrier: bool = False


def choose_tiers(
    facts: Iterable[FunctionFacts],
    fissioned: Collection[str] = (),
    refused: Mapping[str, str] | None = None,
) -> dict[str, TierChoice]:
    """Return the tier of every function: not ``LOOP`` when it or anything it can reach waits.

    ``fissioned`` names those that have a function for a workgroup, ``refused`` says why others have not.
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
    """Return ``name`` and all it calls, directly or not, nearest first."""
    order = [name]
    for current in order:
        order.extend(c for c in by_name[current].calls if c in by_name and c not in order)
    return [by_name[n] for n in order]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemrefParameter:
    """A memref that takes LLVM's parameters from ``first`` on; ``None`` stands for what they hold.

    Sizes, strides and the offset count elements.
    """

    first: int
    element_bytes: int
    written: bool
    filled: bool  # row by row, by a kernel that does little else; its rows have no gaps between elements
    offset: int | None
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """All parameters of a kernel: how many there are in LLVM IR, and which are memrefs.

    ``block`` is the likely size of a workgroup, 0 where it is not worth knowing.
    """

    count: int
    memrefs: tuple[MemrefParameter, ...]
    block: tuple[int, int, int] | None = None

    @property
    def filled(self) -> tuple[MemrefParameter, ...]:
        """What the kernel does little but fill; see nontemporal."""
        return tuple(memref for memref in self.memrefs if memref.filled)

    def attribute(self) -> ir.Attribute:
        """Return an attribute that holds all of it."""
        memrefs = ", ".join(
            f"{{first = {m.first}, element_bytes = {m.element_bytes}, written = {_word(m.written)}, "
            f"filled = {_word(m.filled)}, offset = {_list([m.offset])}, sizes = {_list(m.sizes)}, "
            f"strides = {_list(m.strides)}}}"
            for m in self.memrefs
        )
        return ir.Attribute.parse(
            f"{{count = {self.count}, memrefs = [{memrefs}], block = {_list(self.block or ())}}}"
        )

    @classmethod
    def of_attribute(cls, attribute: ir.Attribute) -> Parameters:
        """Return what :meth:`attribute` made an attribute of."""
        entries = ir.DictAttr(attribute)
        block = _numbers(entries["block"])
        return cls(
            count=ir.IntegerAttr(entries["count"]).value,
            memrefs=tuple(_memref(ir.DictAttr(one)) for one in ir.ArrayAttr(entries["memrefs"])),
            block=(block[0] or 0, block[1] or 0, block[2] or 0) if block else None,
        )


_UNKNOWN = -(1 << 63)  # of sizes, strides and offsets: as upstream has it


def _memref(entries: ir.DictAttr) -> MemrefParameter:
    return MemrefParameter(
        first=ir.IntegerAttr(entries["first"]).value,
        element_bytes=ir.IntegerAttr(entries["element_bytes"]).value,
        written=ir.BoolAttr(entries["written"]).value,
        filled=ir.BoolAttr(entries["filled"]).value,
        offset=_numbers(entries["offset"])[0],
        sizes=_numbers(entries["sizes"]),
        strides=_numbers(entries["strides"]),
    )


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _list(numbers: Iterable[int | None]) -> str:
    text = ", ".join(str(_UNKNOWN if number is None else number) for number in numbers)
    return f"array<i64: {text}>" if text else "array<i64>"


def _numbers(attribute: ir.Attribute) -> tuple[int | None, ...]:
    return tuple(None if n == _UNKNOWN else n for n in ir.DenseI64ArrayAttr(attribute))


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFacts:
    """A kernel after lowering. ``required_block`` is (0, 0, 0) when any workgroup size will do."""

    name: str
    tier: TierChoice
    shared_bytes: int  # of workgroup memory
    context_bytes: int  # of the arrays that keep values of work-items across barriers
    required_block: tuple[int, int, int]
    max_items: int
    workgroup: str | None  # the function that runs a whole workgroup, in the fission tier
    streams: bool = False  # whether memory is all that its time depends on
    stack_units: int = 0  # of image_layout.STACK_UNIT; 0 where any thread's stack will do
    alias_versions: Parameters | None = None  # where it is worth asking whether arguments overlap
    coalesced: bool = False  # whether workgroups side by side may run as one
