"""Places: columns follow the edges, nothing overlaps, trees have no crossings."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from gpubuild.report.diagram import arrange


def random_graph(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randrange(1, 40))]
    pairs = list(combinations(nodes, 2))
    return nodes, sorted(rng.sample(pairs, min(len(pairs), rng.randrange(60))))


@pytest.mark.parametrize("seed", range(25))
def test_edges_go_right_and_nothing_overlaps(seed: int) -> None:
    nodes, edges = random_graph(seed)
    placed = arrange(nodes, edges)
    assert set(placed.nodes) == set(nodes)
    for tail, head in edges:
        columns = [placed.nodes[tail].column, *(p.column for p in placed.bends[tail, head])]
        columns.append(placed.nodes[head].column)
        assert all(b == a + 1 for a, b in pairwise(columns)), "an edge meets every column it passes"
    places: dict[int, list[tuple[float, float]]] = {}
    for point in placed.nodes.values():
        places.setdefault(point.column, []).append((point.height, 1.0))
    for bends in placed.bends.values():
        for point in bends:
            places.setdefault(point.column, []).append((point.height, 0.5))
    for column in places.values():
        for (above, size), (below, other) in pairwise(sorted(column)):
            assert below - above >= (size + other) / 2 - 1e-9
    assert min(height for column in places.values() for height, _ in column) == pytest.approx(0)
    assert arrange(nodes, edges) == placed


def test_a_fan_is_centred_on_its_hub_and_has_no_crossing() -> None:
    # Two fans whose leaves are listed in turns: sorted apart, they need not cross.
    nodes = ["a", "b", *(f"{hub}{i}" for i in range(3) for hub in "ba"), "end"]
    edges = [(name[0], name) for name in nodes[2:-1]] + [(name, "end") for name in nodes[2:-1]]
    placed = arrange(nodes, edges)
    order = [n[0] for n in sorted(nodes[2:-1], key=lambda n: placed.nodes[n].height)]
    assert order in (["a"] * 3 + ["b"] * 3, ["b"] * 3 + ["a"] * 3)
    leaves = [placed.nodes[n].height for n in nodes[2:-1]]
    assert placed.nodes["end"].height == pytest.approx(sum(leaves) / len(leaves))


def test_each_column_is_spread_over_the_height_of_the_fullest() -> None:
    """So that what is made of many steps stands beside them, not in the middle of the picture."""
    nodes = [f"{name}{i}" for name in "abc" for i in range(4)] + ["a", "b", "c"]
    placed = arrange(nodes, [(node, node[0]) for node in nodes[:-3]])
    assert [placed.nodes[n].height for n in ("a", "b", "c")] == [1.5, 5.5, 9.5]


def test_a_source_stands_beside_its_first_reader() -> None:
    placed = arrange(["a", "b", "late", "c"], [("a", "b"), ("b", "c"), ("late", "c")])
    assert placed.nodes["late"].column == placed.nodes["b"].column


def test_nothing_at_all() -> None:
    assert arrange([], []).nodes == {}
