"""Diagrams of steps: layout in columns, SVG, and the languages Graphviz, Mermaid and JSON.

A node is right of all its inputs. Columns are sorted by the mean position of their neighbours, which leaves
few crossings. ``networkx.multipartite_layout`` also stacks columns, but needs numpy and does not sort them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from html import escape
from statistics import fmean
from typing import Any, NamedTuple

import networkx as nx

from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.plan import Plan
from gpubuild.support.frozen import frozen

_SWEEPS = 8


class Point(NamedTuple):
    """A position: columns from the left, rows from the top, both from 0."""

    column: int
    height: float


def arrange(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, Point]:
    """Return a position for each node. Equal graphs give equal positions.

    Each column is sorted by the mean heights of its neighbours, in both directions, and spread over the
    largest height.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    columns = _columns(graph)
    layers: list[list[str]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for node, column in columns.items():
        layers[column].append(node)
    most = max(map(len, layers), default=0)
    heights: dict[str, float] = {}
    for sweep in range(_SWEEPS):
        near = graph.succ if sweep % 2 else graph.pred
        for layer in reversed(layers) if sweep % 2 else layers:
            wanted = {n: fmean([heights[other] for other in near[n]] or [heights.get(n, 0.0)]) for n in layer}
            layer.sort(key=wanted.__getitem__)
            heights.update({node: (i + 0.5) * most / len(layer) - 0.5 for i, node in enumerate(layer)})
    top = min(heights.values(), default=0.0)
    return {node: Point(columns[node], heights[node] - top) for node in nodes}


def _columns(graph: nx.DiGraph[str]) -> dict[str, int]:
    """Return the longest path from a source; sources themselves are left of their first reader."""
    columns = {n: column for column, layer in enumerate(nx.topological_generations(graph)) for n in layer}
    sources = [node for node in graph if graph.succ[node] and not graph.pred[node]]
    return columns | {node: min(columns[reader] for reader in graph.succ[node]) - 1 for node in sources}


@frozen
class Node:
    """One step. ``status`` and ``reason`` are those of a build now; ``None`` if unknown."""

    id: str
    kind: StepKind
    title: str  # shorter than the id
    program: str = ""
    module: str = ""
    target: str = ""
    status: Status | None = None
    reason: str = ""


@frozen
class Edge:
    """``reader`` reads outputs of ``maker``, under these roles."""

    maker: str
    reader: str
    roles: tuple[str, ...]


@frozen
class Diagram:
    """Nodes with producers first, and edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def make_diagram(
    plan: Plan,
    reports: Mapping[str, StepReport] | None = None,
    modules: Collection[str] = (),
    failures: Mapping[str, str] | None = None,
) -> Diagram:
    """Return the diagram of a plan; with ``modules`` only of their steps, and what is before and after them.

    ``failures`` are errors of the last build, by step: those that would run again are shown as failed.
    """
    known = reports or {}
    kept = set(plan.steps) if not modules else _around(plan, modules)
    ids = [step_id for step_id in plan.order() if step_id in kept]
    nodes = tuple(
        _node(plan.steps[step_id], known.get(step_id), (failures or {}).get(step_id, "")) for step_id in ids
    )
    edges = []
    for step_id in ids:
        roles: dict[str, list[str]] = {}
        for item in plan.steps[step_id].inputs:
            if item.producer in kept:
                roles.setdefault(item.producer, []).append(item.name)
        edges += [Edge(maker=m, reader=step_id, roles=tuple(names)) for m, names in roles.items()]
    return Diagram(nodes=nodes, edges=tuple(edges))


def _around(plan: Plan, modules: Collection[str]) -> set[str]:
    """Return the steps of these modules, with all that they depend on and all that depends on them."""
    graph = plan.graph
    found = {step.id for step in plan.steps.values() if step.module in modules}
    for step_id in tuple(found):
        found |= nx.ancestors(graph, step_id) | nx.descendants(graph, step_id)
    return found


def _node(step: Step, report: StepReport | None, failure: str) -> Node:
    status, reason = (report.status, report.reason) if report else (None, "")
    if report and report.error is not None:
        failure = report.error.message
    if failure and status in (Status.WOULD_RUN, Status.FAILED):
        status, reason = Status.FAILED, failure
    return Node(
        id=step.id,
        kind=step.kind,
        title=_title(step),
        program=step.program,
        module=step.module,
        target=step.target,
        status=status,
        reason=reason,
    )


def _title(step: Step) -> str:
    if step.module and step.target:
        return f"@{step.module} {step.target}"
    if step.module:
        return f"@{step.module}"
    # The id says the kind, which a drawing says anyway: `outline/a.mlir`, `saxpy/link`.
    parts = [part for part in step.id.split("/") if part != step.kind]
    return "/".join(parts) or step.id


SCHEMA = 1
# The sources are scanned for the drawing: steps that ran are up to date now.
_CLASS = {
    **dict.fromkeys((Status.UP_TO_DATE, Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE), "up-to-date"),
    **dict.fromkeys((Status.WOULD_RUN, Status.WOULD_HIT), "would-run"),
    **dict.fromkeys((Status.FAILED, Status.SKIPPED), "failed"),
}
_FILL = {"up-to-date": "#dafbe1", "would-run": "#fff8c5", "failed": "#ffebe9"}
# Mermaid's special characters, as its entities.
_MERMAID = {ord(c): f"#{ord(c)};" for c in '"#&<>`{}[]()|\\'} | dict.fromkeys(range(32), " ")


def draw_dot(diagram: Diagram) -> str:
    """Return the diagram in Graphviz's language."""
    lines = [
        "digraph steps {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname=monospace];',
    ]
    for node in diagram.nodes:
        label = f"{_dot(node.title)}\\n{node.kind}"
        fill = f', fillcolor="{_FILL[_CLASS[node.status]]}"' if node.status else ""
        lines.append(f'  "{_dot(node.id)}" [label="{label}", tooltip="{_dot(": ".join(_tip(node)))}"{fill}];')
    lines += [
        f'  "{_dot(e.maker)}" -> "{_dot(e.reader)}" [tooltip="{_dot(", ".join(e.roles))}"];'
        for e in diagram.edges
    ]
    return "\n".join([*lines, "}", ""])


def draw_mermaid(diagram: Diagram) -> str:
    """Return the diagram in Mermaid's language."""
    names = {node.id: f"n{number}" for number, node in enumerate(diagram.nodes)}
    lines = ["flowchart LR"]
    for node in diagram.nodes:
        lines.append(f'  {names[node.id]}["{node.title.translate(_MERMAID)}<br/>{node.kind}"]')
    lines += [f"  {names[edge.maker]} --> {names[edge.reader]}" for edge in diagram.edges]
    for status in dict.fromkeys(node.status for node in diagram.nodes if node.status):
        style = status.value.replace("-", "_")
        lines.append(f"  classDef {style} fill:{_FILL[_CLASS[status]]},color:#1c2128")
        lines.append(f"  class {','.join(names[n.id] for n in diagram.nodes if n.status is status)} {style}")
    return "\n".join([*lines, ""])


def draw_json(diagram: Diagram) -> str:
    """Return the diagram as JSON, nodes with producers first."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "nodes": [
            {name: value or None for name, value in asdict(node).items()} | {"reason": node.reason}
            for node in diagram.nodes
        ],
        "edges": [{"from": e.maker, "to": e.reader, "roles": list(e.roles)} for e in diagram.edges],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _tip(node: Node) -> list[str]:
    return [text for text in (node.id, node.status or "", node.reason) if text]


def _dot(text: str) -> str:
    """Return the content of a quoted string of Graphviz, without control characters."""
    return "".join(" " if c < " " else c for c in text).replace("\\", "\\\\").replace('"', '\\"')


_LETTER = 7.0  # pixels, of the monospaced font below
_PADDING = 10
_BOX_HEIGHT = 38
_ROW = 52
_BETWEEN_COLUMNS = 56
_MARGIN = 16
_LEGEND_HEIGHT = 34
_LONGEST_TITLE = 40
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = """\
svg{background:#fff;font:11.6px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
text{fill:#1c2128}.kind{fill:#57606a}.edge{fill:none;stroke:#8c959f;stroke-width:1.2}
.tip{fill:#8c959f}rect{fill:#f6f8fa;stroke:#8c959f;stroke-width:1.2}
.up-to-date rect,rect.up-to-date{fill:#dafbe1;stroke:#2da44e}
.would-run rect,rect.would-run{fill:#fff8c5;stroke:#bf8700}
.failed rect,rect.failed{fill:#ffebe9;stroke:#cf222e}
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.kind{fill:#9198a1}
rect{fill:#161b22;stroke:#6e7681}.edge{stroke:#6e7681}.tip{fill:#6e7681}
.up-to-date rect,rect.up-to-date{fill:#12361e;stroke:#3fb950}
.would-run rect,rect.would-run{fill:#3d2f06;stroke:#d29922}
.failed rect,rect.failed{fill:#4c1114;stroke:#f85149}}
"""
_LEGEND = (("up-to-date", "up to date"), ("would-run", "would run"), ("failed", "failed"))


def draw_svg(diagram: Diagram) -> str:
    """Return the diagram as SVG. Its tooltips show the id of a step and why it would run."""
    nodes = {node.id: node for node in diagram.nodes}
    placed = arrange(list(nodes), [(edge.maker, edge.reader) for edge in diagram.edges])
    columns = max((point.column for point in placed.values()), default=-1) + 1
    widths = [0.0] * columns
    for node in diagram.nodes:
        column = placed[node.id].column
        widths[column] = max(widths[column], _box_width(node))
    lefts, left = [], float(_MARGIN)
    for width in widths:
        lefts.append(left)
        left += width + _BETWEEN_COLUMNS
    with_legend = any(node.status for node in diagram.nodes)
    rows = max((point.height for point in placed.values()), default=0.0) + 1
    height = 2 * _MARGIN + rows * _ROW + (_LEGEND_HEIGHT if with_legend else 0)
    width = max(left - _BETWEEN_COLUMNS + _MARGIN, 420.0)
    body = [_edge(edge, placed, lefts, widths) for edge in diagram.edges]
    body += [_box(node, placed, lefts, widths) for node in diagram.nodes]
    if with_legend:
        body += _legend(height - _LEGEND_HEIGHT + 4)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="steps of a build">',
            f"<style>\n{_STYLE}</style>",
            *body,
            "</svg>\n",
        )
    )


def plain_text(text: str) -> str:
    """Return ``text`` for XML, in or between tags; characters that XML lacks become ``\\ufffd``."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _box_width(node: Node) -> float:
    longest = max(len(_shortened_title(node)), len(_second_line(node)))
    return 2 * _PADDING + _LETTER * longest


def _shortened_title(node: Node) -> str:
    title = node.title
    return title if len(title) <= _LONGEST_TITLE else f"{title[:14]}…{title[15 - _LONGEST_TITLE :]}"


def _second_line(node: Node) -> str:
    return f"{node.kind} · {node.program}" if node.program else str(node.kind)


def _box(node: Node, placed: Mapping[str, Point], lefts: list[float], widths: list[float]) -> str:
    point = placed[node.id]
    x, y = lefts[point.column], _MARGIN + point.height * _ROW
    return (
        f'<g class="{_CLASS[node.status] if node.status else "unknown"}">'
        f"<title>{plain_text(chr(10).join(_tip(node)))}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{widths[point.column]:.1f}" height="{_BOX_HEIGHT}" rx="6"/>'
        f'<text x="{x + _PADDING:.1f}" y="{y + 16:.1f}">{plain_text(_shortened_title(node))}</text>'
        f'<text x="{x + _PADDING:.1f}" y="{y + 30:.1f}" class="kind">{plain_text(_second_line(node))}</text>'
        "</g>"
    )


def _edge(edge: Edge, placed: Mapping[str, Point], lefts: list[float], widths: list[float]) -> str:
    """Return an arrow from box to box."""
    start, end = placed[edge.maker], placed[edge.reader]
    x, y = lefts[start.column] + widths[start.column], _MARGIN + start.height * _ROW + _BOX_HEIGHT / 2
    tip_x, tip_y = lefts[end.column], _MARGIN + end.height * _ROW + _BOX_HEIGHT / 2
    half = (x + tip_x - 6) / 2
    curve = f"M{x:.1f} {y:.1f}C{half:.1f} {y:.1f} {half:.1f} {tip_y:.1f} {tip_x - 6:.1f} {tip_y:.1f}"
    return f'<path class="edge" d="{curve}"/><path class="tip" d="M{tip_x:.1f} {tip_y:.1f}l-7 -3.5v7z"/>'


def _legend(top: float) -> list[str]:
    parts, x = [], float(_MARGIN)
    for name, text in _LEGEND:
        parts.append(f'<rect class="{name}" x="{x:.1f}" y="{top:.1f}" width="14" height="14" rx="3"/>')
        parts.append(f'<text x="{x + 20:.1f}" y="{top + 11:.1f}">{text}</text>')
        x += 20 + _LETTER * (len(text) + 3)
    return parts


DRAW = {"svg": draw_svg, "dot": draw_dot, "mermaid": draw_mermaid, "json": draw_json}
