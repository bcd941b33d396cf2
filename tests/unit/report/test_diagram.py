"""What is drawn: every step and edge, in each language, whatever the names are."""

import json
import random
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from unit.projects import make_step, step_report

from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.plan import Plan
from gpubuild.report.diagram import (
    Diagram,
    arrange,
    draw_dot,
    draw_json,
    draw_mermaid,
    draw_svg,
    make_diagram,
)

SVG = "{http://www.w3.org/2000/svg}"
EVIL = 'k<&"]\\\x01\n'


def step(name: str, *needs: str, **fields: Any) -> Step:
    return make_step(name, *needs, **{"kind": StepKind.COMPILE} | fields)


PLAN = Plan(
    [
        step("outline/k.mlir", kind=StepKind.OUTLINE),
        step("app/compile/k/sm_90", "outline/k.mlir", module="k", target="sm_90"),
        step("app/compile/k/cpu", "outline/k.mlir", module="k", target="cpu"),
        step("app/compile/other/cpu", "outline/k.mlir", module="other", target="cpu"),
        step("app/bundle/k", "app/compile/k/sm_90", "app/compile/k/cpu", kind=StepKind.BUNDLE, module="k"),
        step("app/link", "app/bundle/k", "app/compile/other/cpu", "outline/k.mlir", kind=StepKind.LINK),
    ]
)


def report(name: str, status: Status, reason: str = "") -> StepReport:
    return step_report(name, status, kind=PLAN.steps[name].kind, reason=reason)


def drawn() -> Diagram:
    reports = {name: report(name, Status.UP_TO_DATE) for name in PLAN.steps}
    reports["app/link"] = report("app/link", Status.WOULD_RUN, "first <build>")
    return make_diagram(PLAN, reports)


def test_a_module_with_all_it_is_made_of_and_goes_into() -> None:
    found = make_diagram(PLAN, modules=["k"])
    assert {n.id for n in found.nodes} == set(PLAN.steps) - {"app/compile/other/cpu"}
    assert all(n.status is None for n in found.nodes)
    assert not any(e.maker == "app/compile/other/cpu" for e in found.edges)


def test_svg_has_a_box_per_step_and_a_curve_per_edge() -> None:
    """And loads nothing."""
    diagram = drawn()
    text = draw_svg(diagram)
    assert "http" not in text.replace(SVG[1:-1], "")
    assert "<script" not in text
    root = ElementTree.fromstring(text)
    groups = root.findall(f"{SVG}g")
    assert [g.findtext(f"{SVG}title").splitlines()[0] for g in groups] == [n.id for n in diagram.nodes]
    assert groups[-1].get("class") == "would-run"
    assert "first <build>" in groups[-1].findtext(f"{SVG}title")
    assert len([p for p in root.findall(f"{SVG}path") if p.get("class") == "edge"]) == len(diagram.edges) == 8
    width, height = float(root.get("width")), float(root.get("height"))
    for rect in root.iter(f"{SVG}rect"):
        assert 0 <= float(rect.get("x")) <= float(rect.get("x")) + float(rect.get("width")) <= width
        assert 0 <= float(rect.get("y")) <= float(rect.get("y")) + float(rect.get("height")) <= height


def test_names_cannot_break_out() -> None:
    diagram = make_diagram(Plan([step(EVIL, module=EVIL, target="cpu")]))
    title = ElementTree.fromstring(draw_svg(diagram)).find(f"{SVG}g/{SVG}title").text
    assert title.startswith('k<&"]\\\ufffd')
    dot = draw_dot(diagram)
    assert '"k<&\\"]\\\\  "' in dot  # the quote and the backslash escaped, no line end inside
    label = draw_mermaid(diagram).splitlines()[1]
    assert label.startswith('  n0["') and label.endswith('"]')
    assert not set('"<&]\\') & set(label[6:-2].replace("<br/>", "").replace("&", "", 0))
    assert json.loads(draw_json(diagram))["nodes"][0]["id"] == EVIL


def test_json_lists_producers_first_with_roles() -> None:
    document = json.loads(draw_json(drawn()))
    ids = [n["id"] for n in document["nodes"]]
    assert document["schema"] == 1
    assert {"from": "app/bundle/k", "to": "app/link", "roles": ["in.app/bundle/k"]} in document["edges"]
    assert all(ids.index(e["from"]) < ids.index(e["to"]) for e in document["edges"])
    assert document["nodes"][-1]["status"] == "would-run"


def test_dot_and_mermaid_have_every_edge() -> None:
    diagram = drawn()
    assert draw_dot(diagram).count(" -> ") == draw_mermaid(diagram).count(" --> ") == len(diagram.edges)
    assert "class n5 would_run" in draw_mermaid(diagram)


# ---- layout ----


def random_graph(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randrange(1, 40))]
    pairs = list(combinations(nodes, 2))
    return nodes, sorted(rng.sample(pairs, min(len(pairs), rng.randrange(60))))


@pytest.mark.parametrize("seed", range(25))
def test_edges_go_right_and_nothing_overlaps(seed: int) -> None:
    nodes, edges = random_graph(seed)
    placed = arrange(nodes, edges)
    assert list(placed) == nodes
    assert all(placed[tail].column < placed[head].column for tail, head in edges)
    columns: dict[int, list[float]] = {}
    for point in placed.values():
        columns.setdefault(point.column, []).append(point.height)
    for heights in columns.values():
        assert all(below - above >= 1 - 1e-9 for above, below in pairwise(sorted(heights)))
    assert min(map(min, columns.values())) == pytest.approx(0)
    assert arrange(nodes, edges) == placed
