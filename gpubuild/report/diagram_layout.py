"""Arrange: places for the nodes of a directed acyclic graph, in columns from left to right.

A node stands right of all that it needs, an edge passes each column between its ends in a place of
its own, and columns are sorted at their neighbours' means, which leaves few crossings.
``networkx.multipartite_layout`` stacks columns, too, but needs numpy, and does not sort them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import networkx as nx

_SWEEPS = 8
_GAP = 0.5  # rows that an edge takes where it passes between nodes

_Key = str | tuple[str, str, int]  # a node, or the stand-in of an edge in a column


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """``column`` counts from 0 at the left; ``height`` is in rows, downwards, 0 or more."""

    column: int
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """Places of nodes, and the points that each edge passes between its ends."""

    nodes: Mapping[str, Point]
    bends: Mapping[tuple[str, str], tuple[Point, ...]]


def arrange(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> Arrangement:
    """Place ``nodes``, which are one row high. The same graph always gets the same places."""
    columns = _columns(nodes, edges)
    ways: nx.DiGraph[_Key] = nx.DiGraph()
    ways.add_nodes_from(nodes)
    bends = {
        (tail, head): [(tail, head, column) for column in range(columns[tail] + 1, columns[head])]
        for tail, head in edges
    }
    for (tail, head), stand_ins in bends.items():
        nx.add_path(ways, (tail, *stand_ins, head))
    layers: list[list[_Key]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for key in ways:
        layers[columns[key] if isinstance(key, str) else key[2]].append(key)
    heights = _heights(ways, layers)
    places = {
        key: Point(column=column, height=heights[key]) for column, layer in enumerate(layers) for key in layer
    }
    return Arrangement(
        nodes={node: places[node] for node in nodes},
        bends={edge: tuple(places[key] for key in stand_ins) for edge, stand_ins in bends.items()},
    )


def _columns(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest way from a source; then sources move right, to where they are first read."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    columns = {n: column for column, layer in enumerate(nx.topological_generations(graph)) for n in layer}
    sources = [node for node in nodes if graph.succ[node] and not graph.pred[node]]
    return columns | {node: min(columns[reader] for reader in graph.succ[node]) - 1 for node in sources}


def _heights(ways: nx.DiGraph[_Key], layers: list[list[_Key]]) -> dict[_Key, float]:
    """Sort each layer at its neighbours' means, to and fro, and spread it over the height of the fullest."""
    heights: dict[_Key, float] = {}
    most = max((sum(map(_rows, layer)) for layer in layers), default=0.0)
    for sweep in range(_SWEEPS):
        to_the_left = sweep % 2 == 1
        for layer in reversed(layers) if to_the_left else layers:
            wanted = {}
            for key in layer:
                near = [heights[other] for other in (ways.succ if to_the_left else ways.pred)[key]]
                wanted[key] = fmean(near) if near else heights.get(key, 0.0)
            layer.sort(key=wanted.__getitem__)
            spread = most / sum(map(_rows, layer))
            end = 0.0
            for key in layer:
                begin, end = end, end + spread * _rows(key)
                heights[key] = (begin + end) / 2
    top = min(heights.values(), default=0.0)
    return {key: height - top for key, height in heights.items()}


def _rows(key: _Key) -> float:
    return 1.0 if isinstance(key, str) else _GAP
