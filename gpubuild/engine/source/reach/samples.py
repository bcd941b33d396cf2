"""Samples: the work-items of a workgroup that walk through a kernel.

Two that part are enough to know that some do. Conditions have constants, around which they change.
"""

from __future__ import annotations

from collections.abc import Collection

from gpubuild.engine.source.reach.walk import Situation

_ALL = 40  # as many work-items all walk
_ROUND = (1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512)
_CONSTANTS = 12


def samples(situation: Situation, constants: Collection[int]) -> list[int]:
    """Positions of work-items in the workgroup, in order; the first and the last are among them."""
    x, y, z = situation.block
    last = situation.items - 1
    if last < _ALL:
        return list(range(last + 1))
    near = sorted(constants)[:_CONSTANTS]
    edges = {0, last, last // 2}
    for number in (*_ROUND, *near, *(n - situation.workgroup[0] * x for n in near)):
        edges |= {number - 1, number, number + 1}
    for row in (1, *near):  # of one row or layer
        edges |= {row * x, row * x * y}
    edges |= {x - 1, (y - 1) * x, (z - 1) * x * y}
    return sorted(edge for edge in edges if 0 <= edge <= last)
