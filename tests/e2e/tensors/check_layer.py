"""Check layer.mlir by NumPy."""

import layer
import numpy as np

w, b = np.array([[1, -1], [2, 0.5], [0.25, 3]], np.float32), np.array([0.5, -2], np.float32)
x = (np.arange(12) * 5 % 7 - 3).astype(np.float32).reshape(1, 4, 3)
y, sums = np.empty((1, 4, 2), np.float32), np.empty((1, 4, 1), np.float32)
layer.layer(x, y, sums)
assert np.array_equal(y, np.maximum(x @ w + b, 0)), y
assert np.array_equal(sums, y.sum(2, keepdims=True)), sums
