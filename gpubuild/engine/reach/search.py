"""Search: two work-items of a kernel that come to different barriers, in launches that are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from gpubuild.engine.reach import compare
from gpubuild.engine.reach.compare import Conflict
from gpubuild.engine.reach.decode import Code
from gpubuild.engine.reach.samples import samples
from gpubuild.engine.reach.trace import Trace
from gpubuild.engine.reach.walk import Situation, Triple, Walk

_WIDE = 64  # work-items of a subgroup, of some AMD GPUs; others, and CPUs, have 32
# A kernel of which no launch is seen is told of only if it is wrong in all of these.
_USUAL: tuple[Triple, ...] = ((64, 1, 1), (32, 1, 1), (256, 1, 1), (1024, 1, 1), (16, 16, 1), (8, 8, 8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A mistake. ``everywhere``: whatever the size of a subgroup; ``seen``: in a launch that is known."""

    conflict: Conflict
    situation: Situation
    everywhere: bool = True
    seen: bool = True

    @property
    def sure(self) -> bool:
        """Whether no run of the launch can be right."""
        return self.conflict.sure and self.everywhere and self.seen


def search(kernel: ir.Operation, code: Code, known: Sequence[Situation]) -> Found | None:
    """What is wrong with ``kernel`` in launches of ``known`` size; something that is sure, if any is."""
    first = Walk(code=code, situation=known[0] if known else Situation(block=_USUAL[0]), item=0)
    if first.trace(kernel).known and "item" not in first.asked:
        return None  # nothing depends on who asks
    likely = None
    for situation in known:
        for found in _in_launch(kernel, code, situation):
            if found.sure:
                return found
            likely = likely or found
    return likely if known else _anywhere(kernel, code)


def _anywhere(kernel: ir.Operation, code: Code) -> Found | None:
    """What is wrong in workgroups of any usual size."""
    told = None
    for block in _USUAL:
        found = next(_in_launch(kernel, code, Situation(block=block)), None)
        if found is None or not (found.everywhere and found.conflict.sure):
            return None
        told = told or found
    return told and replace(told, seen=False)


def _in_launch(kernel: ir.Operation, code: Code, situation: Situation) -> Iterator[Found]:
    """What is wrong in the first workgroup of a launch, then in those at the ends of its grid."""
    asked: set[str] = set()
    yield from _in_workgroup(kernel, code, situation, asked)
    if "workgroup" in asked and situation.grid is not None:
        x, y, z = (size - 1 for size in situation.grid)
        for corner in dict.fromkeys([(x, y, z), (x, 0, 0), (0, y, 0), (0, 0, z)]):
            if any(corner):
                yield from _in_workgroup(kernel, code, replace(situation, workgroup=corner), asked)


def _in_workgroup(kernel: ir.Operation, code: Code, situation: Situation, asked: set[str]) -> Iterator[Found]:
    found = _conflict(kernel, code, situation, asked)
    wide, other = replace(situation, subgroup=_WIDE), found
    if "lane" in asked or (found is not None and found.site.subgroup):
        other = _conflict(kernel, code, wide, asked)
    if found is not None and other is not None and not other.sure:
        found = replace(found, sure=False)
    if found is not None:
        yield Found(conflict=found, situation=situation, everywhere=other is not None)
    elif other is not None:
        yield Found(conflict=other, situation=wide, everywhere=False)


def _conflict(kernel: ir.Operation, code: Code, situation: Situation, asked: set[str]) -> Conflict | None:
    """Two work-items of a workgroup that come to different things: the first that are sure to, if any are."""
    traces: dict[int, Trace] = {}
    for item in samples(situation, code.numbers()):
        walk = Walk(code=code, situation=situation, item=item)
        traces[item] = walk.trace(kernel)
        asked |= walk.asked
    items = list(traces)
    pairs = ((base, item) for base in (items[0], items[len(items) // 2], items[-1]) for item in items)
    found = [c for base, item in pairs if (c := _between(traces, base, item, situation.subgroup)) is not None]
    return min(found, key=lambda c: (not c.sure, c.after), default=None)


def _between(traces: dict[int, Trace], base: int, item: int, subgroup: int) -> Conflict | None:
    if base == item:
        return None
    found = compare.in_workgroup(traces[base], traces[item], base, item)
    if found is None and base // subgroup == item // subgroup:
        lanes = (base % subgroup, item % subgroup)
        found = compare.in_subgroup(traces[base], traces[item], base, item, lanes)
    return found
