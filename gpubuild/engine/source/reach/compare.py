"""Compare: where the ways of two work-items part, so that one waits for another that never comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from gpubuild.engine.source.reach.effort import Effort
from gpubuild.engine.source.reach.trace import ALL_LANES, Choice, Decision, Element, Meeting, Site, Trace

# Steps that following two ways of a choice takes, and elements that are copied in the time of one.
_SMALL, _COPIED = 2, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """``first`` waits at ``site``; ``second`` waits elsewhere, or goes on without it (``elsewhere`` is none).

    ``sure``: that is so in every run of the kernel. Else in those that take the ways assumed.
    ``parted``: what both decided last, each in its own way. ``after``: where both met before, how often.
    """

    site: Site
    first: int
    second: int
    elsewhere: Site | None
    returned: bool
    sure: bool
    parted: tuple[Decision, Decision] | None
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rest:
    """What follows, and whether that is all."""

    elements: tuple[Element, ...]
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two work-items by their positions in the workgroup; ``lanes``: by those in one subgroup of theirs."""

    first: int
    second: int
    effort: Effort
    lanes: tuple[int, int] | None = None

    def swapped(self) -> _Pair:
        """The same two, the other first."""
        return replace(
            self, first=self.second, second=self.first, lanes=self.lanes and (self.lanes[1], self.lanes[0])
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Past:
    """What a work-item has decided, the last first."""

    last: Decision
    before: _Past | None

    def newest(self) -> Iterator[Decision]:
        """All, from the last."""
        past: _Past | None = self
        while past is not None:
            yield past.last
            past = past.before


_Pasts = tuple[_Past | None, _Past | None]


def in_workgroup(a: Trace, b: Trace, first: int, second: int, effort: Effort) -> Conflict | None:
    """The first operation of the whole workgroup that one of the two reaches, and the other does not.

    Both traces are :func:`without_lanes`. Raises ``SpentError``.
    """
    return _ways(a, b, _Pair(first=first, second=second, effort=effort))


def in_subgroup(
    a: Trace, b: Trace, first: int, second: int, lanes: tuple[int, int], effort: Effort
) -> Conflict | None:
    """The same for operations of a subgroup, which both are in as ``lanes``, from whole traces."""
    found = _ways(a, b, _Pair(first=first, second=second, effort=effort, lanes=lanes))
    return found if found is not None and found.site.subgroup else None


def _ways(a: Trace, b: Trace, pair: _Pair) -> Conflict | None:
    if a == b:
        return None  # who does the same meets
    ends = [_Rest(elements=(), known=trace.known) for trace in (a, b)]
    return _find(a.elements, b.elements, (ends[0], ends[1]), pair, (None, None))


def _find(
    a: Sequence[Element],
    b: Sequence[Element],
    rests: tuple[_Rest, _Rest],
    pair: _Pair,
    decided: _Pasts,
) -> Conflict | None:
    i = j = met = 0
    likely: Conflict | None = None
    while True:
        pair.effort.spend()
        i, ours = _past_decisions(a, i, decided[0])
        j, theirs = _past_decisions(b, j, decided[1])
        decided = (ours, theirs)
        x, y = (a[i] if i < len(a) else None), (b[j] if j < len(b) else None)
        if isinstance(x, Choice) and isinstance(y, Choice) and _same_choice(x, y):
            pair.effort.spend(_SMALL + (len(a) + len(b)) // _COPIED)
            following = (_behind(x, _after(a, i + 1, rests[0])), _behind(y, _after(b, j + 1, rests[1])))
            found = [
                _find(one.elements, other.elements, _ended(following, one, other), pair, decided)
                for one, other in zip(x.ways, y.ways, strict=True)
            ]
            told = [conflict for conflict in found if conflict is not None]
            if not x.loop and found and len(told) == len(found) and all(c.sure for c in told):
                return told[0]
            likely = likely or next((replace(c, sure=False, after=met) for c in told), None)
        elif not (isinstance(x, Meeting) and isinstance(y, Meeting) and x.site.identity == y.site.identity):
            last = _parted(x, _after(a, i, rests[0]), _after(b, j, rests[1]), pair, decided)
            last = last and replace(last, after=met)
            return last if last is not None and last.sure else likely or last
        else:
            met += 1
        i, j = i + 1, j + 1


def _past_decisions(
    elements: Sequence[Element], place: int, decided: _Past | None
) -> tuple[int, _Past | None]:
    while place < len(elements) and isinstance(element := elements[place], Decision):
        decided = _Past(element, decided)
        place += 1
    return place, decided


def _same_choice(x: Choice, y: Choice) -> bool:
    return x.op == y.op and x.key == y.key and len(x.ways) == len(y.ways)


def _after(elements: Sequence[Element], place: int, rest: _Rest) -> _Rest:
    return _Rest(elements=(*elements[place:], *rest.elements), known=rest.known)


def _behind(choice: Choice, rest: _Rest) -> _Rest:
    """What follows on the ways of ``choice``: of a loop, perhaps another turn."""
    if not choice.loop:
        return rest
    last = choice.ways[-1]
    return _Rest(elements=(*last.elements, *rest.elements), known=last.known and rest.known)


def _ended(rests: tuple[_Rest, _Rest], one: Trace, other: Trace) -> tuple[_Rest, _Rest]:
    """What follows on a way; nothing is known where its own end is not."""
    unknown = _Rest(elements=(), known=False)
    return (rests[0] if one.known else unknown, rests[1] if other.known else unknown)


def _parted(
    x: Element | None,
    ours: _Rest,
    theirs: _Rest,
    pair: _Pair,
    decided: _Pasts,
) -> Conflict | None:
    """What is wrong where two work-items come to different things."""
    swapped = pair.swapped()
    found = _misses(ours, theirs, pair, decided) or _misses(theirs, ours, swapped, decided[::-1])
    if found is not None or x is None:
        return found or _may_miss(theirs, ours, swapped, decided[::-1])
    return _may_miss(ours, theirs, pair, decided)


def _misses(
    ours: _Rest,
    theirs: _Rest,
    pair: _Pair,
    decided: _Pasts,
) -> Conflict | None:
    """The conflict if the first work-item comes to a site now, and the second does not."""
    x, y = _next(ours), _next(theirs)
    if not isinstance(x, Meeting) or not _asks(x.site, pair):
        return None
    returned = y is None
    if isinstance(y, Meeting):
        if x.site.identity == y.site.identity:
            return None
    elif not theirs.known or x.site.spares_returned or not _never(x.site, theirs.elements, pair.effort):
        return None
    return Conflict(
        site=x.site,
        first=pair.first,
        second=pair.second,
        elsewhere=y.site if isinstance(y, Meeting) else None,
        returned=returned,
        sure=True,
        parted=_last_parted(*decided),
    )


def _may_miss(
    ours: _Rest,
    theirs: _Rest,
    pair: _Pair,
    decided: _Pasts,
) -> Conflict | None:
    """The conflict if the first may come to a site now, and the second never does again."""
    x = _next(ours)
    if (
        not isinstance(x, Choice)
        or not theirs.known
        or any(not isinstance(e, Decision) for e in theirs.elements)
    ):
        return None
    for way in x.ways:
        ahead = _Rest(elements=way.elements, known=way.known)
        found = _misses(ahead, theirs, pair, decided) or _may_miss(ahead, theirs, pair, decided)
        if found is not None:
            return replace(found, sure=False)
    return None


def _next(rest: _Rest) -> Element | None:
    return next((e for e in rest.elements if not isinstance(e, Decision)), None)


def _asks(site: Site, pair: _Pair) -> bool:
    """Whether ``site`` is one where both work-items have to come."""
    if not site.subgroup:
        return True
    if pair.lanes is None:
        return False
    return site.lanes == ALL_LANES or max(pair.lanes) < site.lanes


def _never(site: Site, elements: Sequence[Element], effort: Effort) -> bool:
    """Whether nobody comes to ``site`` on the way of ``elements``."""
    for element in elements:
        effort.spend()
        if isinstance(element, Meeting) and element.site.identity == site.identity:
            return False
        if isinstance(element, Choice) and not all(
            way.known and _never(site, way.elements, effort) for way in element.ways
        ):
            return False
    return True


def _last_parted(ours: _Past | None, theirs: _Past | None) -> tuple[Decision, Decision] | None:
    last: dict[ir.Operation, Decision] = {}
    for other in theirs.newest() if theirs else ():
        last.setdefault(other.op, other)
    for mine in ours.newest() if ours else ():
        if mine.op in last and last[mine.op].outcome != mine.outcome:
            return mine, last[mine.op]
    return None


def without_lanes(trace: Trace) -> Trace:
    """The trace as far as whole workgroups meet."""
    kept: list[Element] = []
    for element in trace.elements:
        if isinstance(element, Choice):
            kept.append(replace(element, ways=tuple(map(without_lanes, element.ways))))
        elif not (isinstance(element, Meeting) and element.site.subgroup):
            kept.append(element)
    return Trace(elements=tuple(kept), known=trace.known)
