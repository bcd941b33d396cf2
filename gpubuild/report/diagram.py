"""Diagram: steps and what flows between them, ready to be drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step. ``status`` and ``reason`` are what a build would do now; ``None``: not known."""

    id: str
    kind: StepKind
    title: str  # what a person calls it, shorter than the id
    program: str = ""
    module: str = ""
    target: str = ""
    status: Status | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """``reader`` reads outputs of ``maker``, under these roles."""

    maker: str
    reader: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Nodes with producers first, and edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def make_diagram(
    plan: Plan, reports: Mapping[str, StepReport] | None = None, modules: Collection[str] = ()
) -> Diagram:
    """The steps of ``plan``; with ``modules`` only what these are made of and go into."""
    known = reports or {}
    kept = set(plan.steps) if not modules else _around(plan, modules)
    ids = [step_id for step_id in plan.order() if step_id in kept]
    nodes = tuple(_node(plan.steps[step_id], known.get(step_id)) for step_id in ids)
    edges = []
    for step_id in ids:
        roles: dict[str, list[str]] = {}
        for item in plan.steps[step_id].inputs:
            if item.producer in kept:
                roles.setdefault(item.producer, []).append(item.name)
        edges += [Edge(maker=m, reader=step_id, roles=tuple(names)) for m, names in roles.items()]
    return Diagram(nodes=nodes, edges=tuple(edges))


def _around(plan: Plan, modules: Collection[str]) -> set[str]:
    """Steps of these modules, all that leads to them and all that they lead to."""
    import networkx as nx

    graph = plan.graph
    found = {step.id for step in plan.steps.values() if step.module in modules}
    for step_id in tuple(found):
        found |= nx.ancestors(graph, step_id) | nx.descendants(graph, step_id)
    return found


def _node(step: Step, report: StepReport | None) -> Node:
    return Node(
        id=step.id,
        kind=step.kind,
        title=_title(step),
        program=step.program,
        module=step.module,
        target=step.target,
        status=report.status if report else None,
        reason=report.reason if report else "",
    )


def _title(step: Step) -> str:
    if step.module and step.target:
        return f"@{step.module} {step.target}"
    if step.module:
        return f"@{step.module}"
    # The id says the kind, which a drawing says anyway: `outline/a.mlir`, `saxpy/link`.
    parts = [part for part in step.id.split("/") if part != step.kind]
    return "/".join(parts) or step.id
