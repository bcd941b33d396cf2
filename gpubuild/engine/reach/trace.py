"""Traces: what a work-item comes to on its way through a kernel, in order."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.reach.sites import Site
from gpubuild.engine.reach.values import Value


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
