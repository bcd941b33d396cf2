"""Arrange: places for the nodes of a directed acyclic graph, in columns from left to right.

The method is Sugiyama's: columns by the longest way from a source, stand-ins wherever an edge
passes a column, few crossings by repeated sorting at neighbours' means, then heights that keep
edges straight. Heights of a column are its neighbours' means as far as the distances allow:
least squares with an order given, which pooling of adjacent violators solves exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8

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


def arrange(nodes: Sequence[str], edges: Sequence[tuple[str, str]], *, gap: float = 0.5) -> Arrangement:
    """Place ``nodes``, which stand in topological order; a node is one row high.

    ``gap`` is the room, in rows, that an edge takes where it passes between nodes. The same
    graph always gets the same places.
    """
    columns = _columns(nodes, edges)
    layers: list[list[_Key]] = [[] for _ in range(max(columns.values(), default=-1) + 1)]
    for node in nodes:
        layers[columns[node]].append(node)
    before: dict[_Key, list[_Key]] = {}
    after: dict[_Key, list[_Key]] = {}
    for tail, head in edges:
        chain: list[_Key] = [tail]
        for column in range(columns[tail] + 1, columns[head]):
            chain.append((tail, head, column))
            layers[column].append(chain[-1])
        chain.append(head)
        for left, right in pairwise(chain):
            after.setdefault(left, []).append(right)
            before.setdefault(right, []).append(left)
    heights = _heights(layers, before, after, gap)
    return Arrangement(
        nodes={node: Point(column=columns[node], height=heights[node]) for node in nodes},
        bends={
            (tail, head): tuple(
                Point(column=column, height=heights[(tail, head, column)])
                for column in range(columns[tail] + 1, columns[head])
            )
            for tail, head in edges
        },
    )


def _columns(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest way from a source; then sources move right, to where they are first read."""
    readers: dict[str, list[str]] = {}
    makers: dict[str, list[str]] = {}
    for tail, head in edges:
        readers.setdefault(tail, []).append(head)
        makers.setdefault(head, []).append(tail)
    columns: dict[str, int] = {}
    for node in nodes:
        columns[node] = max((columns[maker] + 1 for maker in makers.get(node, ())), default=0)
    for node in nodes:
        if node not in makers and node in readers:
            columns[node] = min(columns[reader] for reader in readers[node]) - 1
    return columns


def _heights(
    layers: list[list[_Key]],
    before: Mapping[_Key, list[_Key]],
    after: Mapping[_Key, list[_Key]],
    gap: float,
) -> dict[_Key, float]:
    heights: dict[_Key, float] = {}
    for layer in layers:
        _stack(layer, dict.fromkeys(layer, 0.0), heights, gap)
    for sweep in range(_SWEEPS):
        leftwards = sweep % 2 == 1
        for layer in reversed(layers) if leftwards else layers:
            neighbours = after if leftwards else before
            wanted = {}
            for key in layer:
                near = [heights[other] for other in neighbours.get(key, ())]
                wanted[key] = sum(near) / len(near) if near else heights[key]
            layer.sort(key=lambda key: (wanted[key], str(key)))
            _stack(layer, wanted, heights, gap)
    lowest = min(heights.values(), default=0.0)
    return {key: height - lowest for key, height in heights.items()}


def _stack(layer: list[_Key], wanted: Mapping[_Key, float], heights: dict[_Key, float], gap: float) -> None:
    """Give the keys of one column, in order, heights near those wanted, far enough apart."""
    offsets, offset = [], 0.0
    for above, key in zip([None, *layer], layer, strict=False):
        if above is not None:
            offset += sum(1.0 if isinstance(near, str) else gap for near in (above, key)) / 2
        offsets.append(offset)
    # Without the offsets the heights must not fall: pools of equal values, merged where they do.
    pools: list[tuple[float, int]] = []  # mean, count
    for key, above_it in zip(layer, offsets, strict=True):
        mean, count = wanted[key] - above_it, 1
        while pools and pools[-1][0] >= mean:
            other, others = pools.pop()
            mean, count = (mean * count + other * others) / (count + others), count + others
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    for key, mean, above_it in zip(layer, flat, offsets, strict=True):
        heights[key] = mean + above_it
