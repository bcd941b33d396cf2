"""Check branches.mlir by NumPy, with small integers."""

import branches
import numpy as np

SIZES = ((9, 5), (5, 6), (6, 7), (7, 3))
a, b, c, d = (
    ((np.arange(rows * columns) * 7 + n) % 11 - 5).astype(np.float32).reshape(rows, columns)
    for n, (rows, columns) in enumerate(SIZES)
)
for _ in range(3):
    product, right = np.full((9, 3), -1, np.float32), np.full((6, 3), -1, np.float32)
    branches.product(a, b, c, d, product, right)
    assert np.array_equal(right, c @ d) and np.array_equal(product, a @ b @ (c @ d)), (product, right)
