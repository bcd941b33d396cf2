"""SVG: a diagram as one picture that needs nothing else, in light and dark."""

from __future__ import annotations

import re
from html import escape

from gpubuild.model.result import Status
from gpubuild.report.diagram import Diagram, Node
from gpubuild.report.diagram_layout import Arrangement, arrange

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
_CLASS = {
    Status.UP_TO_DATE: "up-to-date",
    Status.WOULD_RUN: "would-run",
    Status.WOULD_HIT: "would-run",
    # Sources are scanned to draw the picture: they are up to date now.
    Status.RAN: "up-to-date",
    Status.HIT_LOCAL: "up-to-date",
    Status.HIT_REMOTE: "up-to-date",
    Status.FAILED: "failed",
    Status.SKIPPED: "failed",
}
_LEGEND = (("up-to-date", "up to date"), ("would-run", "would run"), ("failed", "failed"))


def draw_svg(diagram: Diagram) -> str:
    """The picture's text. A pointer over a step shows its id and why it would run."""
    nodes = {node.id: node for node in diagram.nodes}
    placed = arrange(list(nodes), [(edge.maker, edge.reader) for edge in diagram.edges])
    columns = max((point.column for point in placed.nodes.values()), default=-1) + 1
    widths = [0.0] * columns
    for node in diagram.nodes:
        column = placed.nodes[node.id].column
        widths[column] = max(widths[column], _box_width(node))
    lefts, left = [], float(_MARGIN)
    for width in widths:
        lefts.append(left)
        left += width + _BETWEEN_COLUMNS
    with_legend = any(node.status for node in diagram.nodes)
    rows = max((point.height for point in placed.nodes.values()), default=0.0) + 1
    height = 2 * _MARGIN + rows * _ROW + (_LEGEND_HEIGHT if with_legend else 0)
    width = max(left - _BETWEEN_COLUMNS + _MARGIN, 420.0)
    body = [_edge(edge.maker, edge.reader, placed, lefts, widths) for edge in diagram.edges]
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
    """``text`` safe between tags and in attributes; what XML cannot hold becomes ``\\ufffd``."""
    return escape(_NOT_XML.sub("\ufffd", text))


def _box_width(node: Node) -> float:
    longest = max(len(_title(node)), len(_second_line(node)))
    return 2 * _PADDING + _LETTER * longest


def _title(node: Node) -> str:
    title = node.title
    return title if len(title) <= _LONGEST_TITLE else f"{title[:14]}…{title[15 - _LONGEST_TITLE :]}"


def _second_line(node: Node) -> str:
    return f"{node.kind} · {node.program}" if node.program else str(node.kind)


def _box(node: Node, placed: Arrangement, lefts: list[float], widths: list[float]) -> str:
    point = placed.nodes[node.id]
    x, y = lefts[point.column], _MARGIN + point.height * _ROW
    told = [node.id, *([node.status.value] if node.status else []), *([node.reason] if node.reason else [])]
    return (
        f'<g class="{_CLASS[node.status] if node.status else "unknown"}">'
        f"<title>{plain_text(chr(10).join(told))}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{widths[point.column]:.1f}" height="{_BOX_HEIGHT}" rx="6"/>'
        f'<text x="{x + _PADDING:.1f}" y="{y + 16:.1f}">{plain_text(_title(node))}</text>'
        f'<text x="{x + _PADDING:.1f}" y="{y + 30:.1f}" class="kind">{plain_text(_second_line(node))}</text>'
        "</g>"
    )


def _edge(maker: str, reader: str, placed: Arrangement, lefts: list[float], widths: list[float]) -> str:
    """A curve from box to box, level where it passes a column, with a tip at its end."""
    start, end = placed.nodes[maker], placed.nodes[reader]

    def middle(height: float) -> float:
        return _MARGIN + height * _ROW + _BOX_HEIGHT / 2

    x, y = lefts[start.column] + widths[start.column], middle(start.height)
    path = [f"M{x:.1f} {y:.1f}"]
    for bend in placed.bends[(maker, reader)]:
        path.append(_curve(x, y, lefts[bend.column], middle(bend.height)))
        x, y = lefts[bend.column] + widths[bend.column], middle(bend.height)
        path.append(f"L{x:.1f} {y:.1f}")
    tip_x, tip_y = lefts[end.column], middle(end.height)
    path.append(_curve(x, y, tip_x - 6, tip_y))
    tip = f"M{tip_x:.1f} {tip_y:.1f}l-7 -3.5v7z"
    return f'<path class="edge" d="{"".join(path)}"/><path class="tip" d="{tip}"/>'


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    half = (x + to_x) / 2
    return f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"


def _legend(top: float) -> list[str]:
    parts, x = [], float(_MARGIN)
    for name, text in _LEGEND:
        parts.append(f'<rect class="{name}" x="{x:.1f}" y="{top:.1f}" width="14" height="14" rx="3"/>')
        parts.append(f'<text x="{x + 20:.1f}" y="{top + 11:.1f}">{text}</text>')
        x += 20 + _LETTER * (len(text) + 3)
    return parts
