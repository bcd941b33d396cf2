"""Tiers: the ways in which the work-items of a workgroup are run, and who needs which.

``LOOP`` runs them one after the other in a loop nest that LLVM can vectorise, which is right as
long as none waits for another. ``FISSION`` has cut a kernel at its barriers into several such
nests (cpu.fission). ``FIBERS`` gives each work-item its own stack, for what cannot be cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum


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
    """What decides a function's tier: the first op that waits, and the functions it calls.

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
    """The tier of every function: not ``LOOP`` when it or anything it can reach waits.

    ``fissioned`` names those that were cut at all that waits, ``refused`` says why others were not.
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
    """``name`` and all it calls, directly or not, nearest first."""
    order = [name]
    for current in order:
        order.extend(c for c in by_name[current].calls if c in by_name and c not in order)
    return [by_name[n] for n in order]
