"""Check the functions of flow.mlir by NumPy."""

import flow
import numpy as np


def check(name, arguments, *expected):
    found = [np.full_like(result, -1) for result in expected]
    getattr(flow, name)(*arguments, *found)
    for result, right in zip(found, expected, strict=True):
        assert (result == right).all(), (name, result, right)


x, y = np.arange(3, dtype=np.int32), np.arange(40, dtype=np.int32)
check("arms", (x, y, False), y * y)
check("arms", (y, y, True), y + y)
check("grow", (x, 9), np.append(x, np.full(36, 7, np.int32)))
check("twice", (y,), y + y, y + y)
a, b = y, 3 * y
check("swap", (a, b, 5, False), b, a)
for _ in range(5):
    a, b = a + b, a
check("swap", (y, 3 * y, 5, True), a, b)
check("follow", (y, x, 3), 8 * y, 4 * y)
check("follow", (y, x, 0), y, x)
check("nest", (y, 3), 10 * y)
check("choose", (x, y, False), 2 * y)
for first in (False, True):
    a, b = y, 3 * y
    for _ in range(4):
        a, b = a + b, a if first else b
    check("carry_one", (y, 3 * y, 4, first), a, b)
