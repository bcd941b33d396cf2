"""Telling: what a search has found, as a message with its places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlir import ir

from gpubuild.engine.ir.diagnostics import SourceText, about, locate
from gpubuild.engine.source.reach.compare import Conflict
from gpubuild.engine.source.reach.search import Found
from gpubuild.engine.source.reach.trace import Decision
from gpubuild.engine.source.reach.walk import place_of
from gpubuild.errors import Diagnostic


def told(found: Found, name: str, source: SourceText) -> Diagnostic:
    """What is wrong with the kernel called ``name``, in words and at its places."""
    conflict, situation = found.conflict, found.situation
    first, second = (_shape(place_of(situation, i), ", ") for i in (conflict.first, conflict.second))
    where = ""
    if any(situation.workgroup):
        where = f" of workgroup ({_shape(situation.workgroup, ', ')})"
    group = "subgroup" if conflict.site.subgroup else "workgroup"
    if conflict.elsewhere is not None:
        misses = (
            f"waits at another {conflict.elsewhere.name}"
            if (conflict.elsewhere.name == conflict.site.name)
            else f"waits at {conflict.elsewhere.name}"
        )
    else:
        misses = "returns without reaching it" if conflict.returned else "never comes"
    may = "waits" if conflict.sure else "may wait"
    message = (
        f"{name}: work-item ({first}){where} {may} here at {conflict.site.name}, "
        f"but work-item ({second}) of its {group} {misses}{_in_what(found)}"
    )
    told = about(conflict.site.op, message, source)
    notes = [*_elsewhere(conflict, second, source), *_decided(conflict, first, second, source)]
    if situation.launch is not None:
        size = f"launched here with workgroups of {_shape(situation.block, ' x ')}"
        notes.append(_note_at(situation.launch.location, size, source))
    return replace(
        told, severity="error" if found.sure else "warning", notes=tuple(n for n in notes if n.location)
    )


def _in_what(found: Found) -> str:
    """What the mistake depends on."""
    size = _shape(found.situation.block, " x ")
    if not found.everywhere:
        return f", where a subgroup has {found.situation.subgroup} work-items"
    if not found.seen:
        return ", in workgroups of more than one work-item"
    if not found.always:
        return ", when it is launched so"
    return "" if found.situation.launch is not None else f", in workgroups of {size}"


def _elsewhere(conflict: Conflict, second: str, source: SourceText) -> Iterator[Diagnostic]:
    if conflict.elsewhere is not None:
        yield _note_at(conflict.elsewhere.op.location, f"work-item ({second}) waits here", source)


def _decided(conflict: Conflict, first: str, second: str, source: SourceText) -> Iterator[Diagnostic]:
    """Where the two part, and what their condition is."""
    if conflict.parted is None:
        return
    mine, other = conflict.parted
    if mine.condition is None:
        turn = "comes to another turn" if mine.outcome else "has no more turns"
        against = "does not" if mine.outcome else "has"
        yield _note_at(
            mine.op.location, f"work-item ({first}) {turn} of this loop, ({second}) {against}", source
        )
        return
    values = f"{_value(mine)} for work-item ({first}), {_value(other)} for ({second})"
    yield _note_at(mine.op.location, f"what decides here is {values}", source)
    owner = mine.condition.owner
    if not isinstance(owner, ir.Block):
        yield _note_at(owner.operation.location, "which is computed here", source)


def _value(decision: Decision) -> str:
    kind = decision.condition.type if decision.condition is not None else None
    if isinstance(kind, ir.IntegerType) and ir.IntegerType(kind).width == 1:
        return "true" if decision.outcome else "false"
    return str(decision.outcome)


def _note_at(place: ir.Location, message: str, source: SourceText) -> Diagnostic:
    location, line = locate(place, source)
    return Diagnostic(message=message, severity="note", location=location, source_line=line)


def _shape(sizes: Sequence[int], between: str) -> str:
    return between.join(map(str, sizes))
