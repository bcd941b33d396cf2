"""Traces: what a work-item comes to on its way through a kernel, in order."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.source.reach import sites
from gpubuild.engine.source.reach.values import Value

ALL_LANES = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An operation at which work-items meet."""

    op: ir.Operation
    name: str
    identity: int  # sites with the same are one place
    subgroup: bool = False  # only work-items of a subgroup meet
    lanes: int = ALL_LANES  # of a subgroup, which have to come: the first so many
    spares_returned: bool = False  # who has returned is not waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """It comes to a site."""

    site: Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """It takes one of the ways on, which ``op`` decides from ``condition``."""

    op: ir.Operation
    condition: ir.Value | None
    outcome: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """It takes one of the ways on, and which is not known; work-items with the same key take the same.

    ``loop``: there is one way more, past a loop without turns. The last way then stands for all turns
    that no other shows, each of which begins where one has ended.
    """

    op: ir.Operation
    key: tuple[Value, ...]
    ways: tuple[Trace, ...]
    loop: bool


Element = Meeting | Decision | Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """``known``: this is all, up to the end. Else nothing is known of what follows the elements."""

    elements: tuple[Element, ...]
    known: bool


def describe(op: ir.Operation, identity: int, width: int) -> Site:
    """The site that ``op`` is; ``width`` is that of a shuffle, where it is known, else negative.

    A shuffle of unknown width asks for nobody.
    """
    name = op.name
    if name in sites.WORKGROUP:
        return Site(op=op, name=name, identity=identity)
    if name == sites.CLUSTER:
        return Site(op=op, name=name, identity=-1, spares_returned=True)
    if name in {sites.SHUFFLE, sites.ROTATE}:
        return Site(op=op, name=name, identity=identity, subgroup=True, lanes=width, spares_returned=True)
    return Site(op=op, name=name, identity=identity, subgroup=True)
