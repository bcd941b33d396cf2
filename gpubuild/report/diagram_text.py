"""Text: a diagram in the languages of other tools: Graphviz, Mermaid, JSON."""

from __future__ import annotations

import json
from typing import Any

from gpubuild.model.result import Status
from gpubuild.report.diagram import Diagram, Node

SCHEMA = 1
_FILL = {
    Status.UP_TO_DATE: "#dafbe1",
    Status.WOULD_RUN: "#fff8c5",
    Status.WOULD_HIT: "#fff8c5",
    Status.RAN: "#dafbe1",
    Status.HIT_LOCAL: "#dafbe1",
    Status.HIT_REMOTE: "#dafbe1",
    Status.FAILED: "#ffebe9",
    Status.SKIPPED: "#ffebe9",
}
# What Mermaid would take for its own, as the entities it knows.
_MERMAID = {ord(c): f"#{ord(c)};" for c in '"#&<>`{}[]()|\\'} | dict.fromkeys(range(32), " ")


def draw_dot(diagram: Diagram) -> str:
    """For Graphviz: ``dot -Tpdf``."""
    lines = [
        "digraph steps {",
        "  rankdir=LR;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname=monospace];',
    ]
    for node in diagram.nodes:
        label = f"{_dot(node.title)}\\n{node.kind}"
        fill = f', fillcolor="{_FILL[node.status]}"' if node.status else ""
        lines.append(f'  "{_dot(node.id)}" [label="{label}", tooltip="{_dot(_told(node))}"{fill}];')
    lines += [
        f'  "{_dot(e.maker)}" -> "{_dot(e.reader)}" [tooltip="{_dot(", ".join(e.roles))}"];'
        for e in diagram.edges
    ]
    return "\n".join([*lines, "}", ""])


def draw_mermaid(diagram: Diagram) -> str:
    """For Markdown pages that show Mermaid diagrams."""
    names = {node.id: f"n{number}" for number, node in enumerate(diagram.nodes)}
    lines = ["flowchart LR"]
    for node in diagram.nodes:
        lines.append(f'  {names[node.id]}["{node.title.translate(_MERMAID)}<br/>{node.kind}"]')
    lines += [f"  {names[edge.maker]} --> {names[edge.reader]}" for edge in diagram.edges]
    for status in dict.fromkeys(node.status for node in diagram.nodes if node.status):
        style = status.value.replace("-", "_")
        lines.append(f"  classDef {style} fill:{_FILL[status]},color:#1c2128")
        lines.append(f"  class {','.join(names[n.id] for n in diagram.nodes if n.status is status)} {style}")
    return "\n".join([*lines, ""])


def draw_json(diagram: Diagram) -> str:
    """For scripts: nodes with producers first."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind.value,
                "title": node.title,
                "program": node.program or None,
                "module": node.module or None,
                "target": node.target or None,
                "status": node.status.value if node.status else None,
                "reason": node.reason,
            }
            for node in diagram.nodes
        ],
        "edges": [{"from": e.maker, "to": e.reader, "roles": list(e.roles)} for e in diagram.edges],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _told(node: Node) -> str:
    return ": ".join(filter(None, (node.id, node.status.value if node.status else "", node.reason)))


def _dot(text: str) -> str:
    """Inside a quoted string: quotes and backslashes escaped, no line ends, no NUL."""
    return "".join(" " if c < " " else c for c in text).replace("\\", "\\\\").replace('"', '\\"')
