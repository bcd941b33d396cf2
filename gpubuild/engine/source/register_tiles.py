"""Which loops let a work-item compute a small tile of elements that share loads (register tiling).

With one element for each work-item, a product of matrices needs two loads for each multiplication; with a
tile of 4 by 4 it needs eight for sixteen.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.legalize.unroll_and_jam import can_be_jammed

COLUMNS, ROWS = 4, 4  # of a tile, at most
_MOST_UNUSED = 1 / 8  # of the elements of all tiles, where the extent is known


def tile_of(loop: ir.Operation, extents: Sequence[int | None], sizes: tuple[int, int]) -> tuple[int, int]:
    """Return the columns and rows of the tile of a work-item; (1, 1) where a larger one saves no loads.

    ``extents`` are those of the parallel ``loop``, unknown ones None. ``sizes`` are the columns and rows of a
    workgroup.
    """
    arguments = list(loop.regions[0].blocks[0].arguments)
    if len(arguments) < 2 or not can_be_jammed(loop, COLUMNS * ROWS):
        return 1, 1
    depends = {argument: frozenset({len(arguments) - 1 - n}) for n, argument in enumerate(arguments)}
    loads: list[frozenset[int]] = []
    for op in loop.regions[0].blocks[0]:
        _follow(op.operation, depends, loads)
    if any(all(dimension in load for load in loads) for dimension in (0, 1)):
        return 1, 1
    columns, rows = list(extents)[:-3:-1]
    return _fitting(columns, sizes[0], COLUMNS), _fitting(rows, sizes[1], ROWS)


def _fitting(extent: int | None, size: int, most: int) -> int:
    """Return the largest number of elements up to ``most`` with which few are outside ``extent``."""
    while most > 1 and extent is not None and -extent % (size * most) > extent * _MOST_UNUSED:
        most //= 2
    return most


def _follow(
    op: ir.Operation, depends: dict[ir.Value, frozenset[int]], loads: list[frozenset[int]], depth: int = 0
) -> None:
    """Add which dimensions (0: columns, 1: rows) the results depend on, and each load in a loop."""
    found = frozenset[int]().union(*(depends.get(value, frozenset()) for value in op.operands))
    if op.name == "memref.load" and depth:
        loads.append(found)
    for region in op.regions:
        for block in region.blocks:
            # What a loop carries depends on what it adds, too; it is hardly ever an index.
            depends |= dict.fromkeys(list(block.arguments)[1:], frozenset({0, 1}))
            for inner in block:
                _follow(inner.operation, depends, loads, depth + 1)
    depends |= dict.fromkeys(op.results, frozenset({0, 1}) if op.regions else found)
