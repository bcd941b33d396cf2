"""Compare: where the ways of two work-items part, so that one waits for another that never comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpubuild.engine.reach.trace import ALL_LANES, Choice, Decision, Element, Meeting, Site, Trace


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
    lanes: tuple[int, int] | None = None


def in_workgroup(a: Trace, b: Trace, first: int, second: int) -> Conflict | None:
    """The first operation of the whole workgroup that one of the two reaches, and the other does not."""
    pair = _Pair(first=first, second=second)
    return _ways(_without_lanes(a), _without_lanes(b), pair)


def in_subgroup(a: Trace, b: Trace, first: int, second: int, lanes: tuple[int, int]) -> Conflict | None:
    """The same for operations of a subgroup, which both are in as ``lanes``."""
    found = _ways(a, b, _Pair(first=first, second=second, lanes=lanes))
    return found if found is not None and found.site.subgroup else None


def _ways(a: Trace, b: Trace, pair: _Pair) -> Conflict | None:
    ends = [_Rest(elements=(), known=trace.known) for trace in (a, b)]
    return _find(a.elements, b.elements, (ends[0], ends[1]), pair, ((), ()))


def _find(
    a: Sequence[Element],
    b: Sequence[Element],
    rests: tuple[_Rest, _Rest],
    pair: _Pair,
    decided: tuple[tuple[Decision, ...], tuple[Decision, ...]],
) -> Conflict | None:
    i = j = met = 0
    likely: Conflict | None = None
    while True:
        i, ours = _past_decisions(a, i, decided[0])
        j, theirs = _past_decisions(b, j, decided[1])
        decided = (ours, theirs)
        x, y = (a[i] if i < len(a) else None), (b[j] if j < len(b) else None)
        if isinstance(x, Choice) and isinstance(y, Choice) and _same_choice(x, y):
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
    elements: Sequence[Element], place: int, decided: tuple[Decision, ...]
) -> tuple[int, tuple[Decision, ...]]:
    while place < len(elements) and isinstance(elements[place], Decision):
        element = elements[place]
        if isinstance(element, Decision):
            decided = (*decided, element)
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
    decided: tuple[tuple[Decision, ...], tuple[Decision, ...]],
) -> Conflict | None:
    """What is wrong where two work-items come to different things."""
    swapped = _Pair(first=pair.second, second=pair.first, lanes=pair.lanes and (pair.lanes[1], pair.lanes[0]))
    found = _misses(ours, theirs, pair, decided) or _misses(theirs, ours, swapped, decided[::-1])
    if found is not None or x is None:
        return found or _may_miss(theirs, ours, swapped, decided[::-1])
    return _may_miss(ours, theirs, pair, decided)


def _misses(
    ours: _Rest,
    theirs: _Rest,
    pair: _Pair,
    decided: tuple[tuple[Decision, ...], tuple[Decision, ...]],
) -> Conflict | None:
    """The conflict if the first work-item comes to a site now, and the second does not."""
    x, y = _next(ours), _next(theirs)
    if not isinstance(x, Meeting) or not _asks(x.site, pair):
        return None
    returned = y is None
    if isinstance(y, Meeting):
        if x.site.identity == y.site.identity:
            return None
    elif not theirs.known or x.site.spares_returned or not _never(x.site, theirs.elements):
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
    decided: tuple[tuple[Decision, ...], tuple[Decision, ...]],
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


def _never(site: Site, elements: Sequence[Element]) -> bool:
    """Whether nobody comes to ``site`` on the way of ``elements``."""
    for element in elements:
        if isinstance(element, Meeting) and element.site.identity == site.identity:
            return False
        if isinstance(element, Choice) and not all(
            way.known and _never(site, way.elements) for way in element.ways
        ):
            return False
    return True


def _last_parted(ours: Sequence[Decision], theirs: Sequence[Decision]) -> tuple[Decision, Decision] | None:
    for mine in reversed(ours):
        other = next((d for d in reversed(theirs) if d.op == mine.op), None)
        if other is not None and other.outcome != mine.outcome:
            return mine, other
    return None


def _without_lanes(trace: Trace) -> Trace:
    """The trace as far as whole workgroups meet."""
    kept: list[Element] = []
    for element in trace.elements:
        if isinstance(element, Choice):
            kept.append(replace(element, ways=tuple(map(_without_lanes, element.ways))))
        elif not (isinstance(element, Meeting) and element.site.subgroup):
            kept.append(element)
    return Trace(elements=tuple(kept), known=trace.known)
