"""Search: two work-items of a kernel that come to different barriers, in launches that are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from gpubuild.engine.source.reach import compare
from gpubuild.engine.source.reach.compare import Conflict
from gpubuild.engine.source.reach.decode import Code
from gpubuild.engine.source.reach.effort import Effort, SpentError
from gpubuild.engine.source.reach.samples import samples
from gpubuild.engine.source.reach.trace import Trace
from gpubuild.engine.source.reach.walk import Situation, Triple, Walk

_WIDE = 64  # work-items of a subgroup, of some AMD GPUs; others, and CPUs, have 32
# A kernel of which no launch is seen is told of only if it is wrong in all of these.
_USUAL: tuple[Triple, ...] = ((64, 1, 1), (32, 1, 1), (256, 1, 1), (1024, 1, 1), (16, 16, 1), (8, 8, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A mistake. ``everywhere``: whatever the size of a subgroup; ``seen``: in a launch that is known.

    ``always``: all launches are known, and as wrong, and one happens under no condition.
    """

    conflict: Conflict
    situation: Situation
    everywhere: bool = True
    seen: bool = True
    always: bool = True

    @property
    def sure(self) -> bool:
        """Whether no run of the kernel can be right."""
        return self.conflict.sure and self.everywhere and self.seen and self.always


def search(
    kernel: ir.Operation,
    code: Code,
    known: Sequence[Situation],
    *,
    others: bool = False,
    effort: Effort | None = None,
) -> Found | None:
    """What is wrong with ``kernel`` in launches of ``known`` size; what is sure to be, if all are.

    ``others``: there are launches that are not known. ``effort`` is what may be done, usually a new one.
    """
    try:
        return _search(kernel, code, known, others, effort or Effort())
    except (SpentError, RecursionError):
        return None  # Python's stack is short, and so is the time that this may take


def _search(
    kernel: ir.Operation, code: Code, known: Sequence[Situation], others: bool, effort: Effort
) -> Found | None:
    situation = known[0] if known else Situation(block=_USUAL[0])
    first = Walk(code=code, situation=situation, item=0, effort=effort)
    if first.trace(kernel).known and "item" not in first.asked:
        return None  # nothing depends on who asks
    if not known:
        return _anywhere(kernel, code, effort)
    found = [_worst(_in_launch(kernel, code, one, effort)) for one in known]
    sure = [one for one in found if one is not None and one.sure]
    if not sure:
        return next((one for one in found if one is not None), None)
    always = len(sure) == len(known) and not others and any(one.certain for one in known)
    return replace(sure[0], always=always)


def _worst(found: Iterator[Found]) -> Found | None:
    """The first that is sure, else the first."""
    likely = None
    for one in found:
        if one.sure:
            return one
        likely = likely or one
    return likely


def _anywhere(kernel: ir.Operation, code: Code, effort: Effort) -> Found | None:
    """What is wrong in workgroups of any usual size."""
    told = None
    for block in _USUAL:
        found = next(_in_launch(kernel, code, Situation(block=block), effort), None)
        if found is None or not (found.everywhere and found.conflict.sure):
            return None
        told = told or found
    return told and replace(told, seen=False)


def _in_launch(kernel: ir.Operation, code: Code, situation: Situation, effort: Effort) -> Iterator[Found]:
    """What is wrong in the first workgroup of a launch, then in those at the ends of its grid."""
    asked: set[str] = set()
    yield from _in_workgroup(kernel, code, situation, asked, effort)
    if "workgroup" in asked and situation.grid is not None:
        x, y, z = (size - 1 for size in situation.grid)
        for corner in dict.fromkeys([(x, y, z), (x, 0, 0), (0, y, 0), (0, 0, z)]):
            if any(corner):
                yield from _in_workgroup(kernel, code, replace(situation, workgroup=corner), asked, effort)


def _in_workgroup(
    kernel: ir.Operation, code: Code, situation: Situation, asked: set[str], effort: Effort
) -> Iterator[Found]:
    found = _conflict(kernel, code, situation, asked, effort)
    wide, other = replace(situation, subgroup=_WIDE), found
    if "lane" in asked or (found is not None and found.site.subgroup):
        other = _conflict(kernel, code, wide, asked, effort)
    if found is not None and other is not None and not other.sure:
        found = replace(found, sure=False)
    if found is not None:
        yield Found(conflict=found, situation=situation, everywhere=other is not None)
    elif other is not None:
        yield Found(conflict=other, situation=wide, everywhere=False)


def _conflict(
    kernel: ir.Operation, code: Code, situation: Situation, asked: set[str], effort: Effort
) -> Conflict | None:
    """Two work-items of a workgroup that come to different things: the first that are sure to, if any are."""
    ways: dict[Trace, int] = {}  # and a number for each, so that no trace is compared again and again
    taken: dict[int, int] = {}
    for item in samples(situation, code.numbers()):
        walk = Walk(code=code, situation=situation, item=item, effort=effort)
        taken[item] = ways.setdefault(walk.trace(kernel), len(ways))
        asked |= walk.asked
    items = list(taken)
    bases = dict.fromkeys((items[0], items[len(items) // 2], items[-1]))
    found = [c for base in bases for c in _against(base, list(ways), taken, situation.subgroup, effort)]
    return min(found, key=lambda c: (not c.sure, c.after), default=None)


def _against(
    base: int, traces: list[Trace], taken: dict[int, int], subgroup: int, effort: Effort
) -> Iterator[Conflict]:
    """How others conflict with ``base``. Of those who go one way, one is asked, and one of its subgroup."""
    if len(traces) == 1:
        return
    others: dict[int, int] = {}
    near: dict[int, int] = {}  # the first lane: a shuffle that asks for another also asks for that
    for item, way in taken.items():
        others.setdefault(way, item)
        if item // subgroup == base // subgroup:
            near.setdefault(way, item)
    mine = taken[base]
    stripped = compare.without_lanes(traces[mine])
    for way, item in others.items():
        if way == mine:
            continue
        found = compare.in_workgroup(stripped, compare.without_lanes(traces[way]), base, item, effort)
        if found is None and way in near:
            lanes = (base % subgroup, near[way] % subgroup)
            found = compare.in_subgroup(traces[mine], traces[way], base, near[way], lanes, effort)
        if found is not None:
            yield found
