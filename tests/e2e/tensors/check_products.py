"""Check the products of products.mlir by NumPy, and print a digest of their bits."""

import hashlib

import numpy as np
import products

generator = np.random.default_rng(4)
found = hashlib.sha256()
SIZES = (
    (1, 1, 1),
    (9, 5, 33),
    (31, 2, 128),
    (32, 1, 127),
    (33, 7, 129),
    (70, 40, 300),
    (5, 0, 9),
    (33, 513, 140),
    (3, 896, 129),
    (37, 1200, 40),
)
for m, k, n in SIZES:
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    products.product(a, b, c)
    assert np.allclose(c, a.astype(float) @ b, rtol=1e-4, atol=1e-4), (m, k, n)
    found.update(c.tobytes())
for k in (24, 700):
    shapes = ((45, k), (k, 130), (45, 130))
    a, b, c = (generator.standard_normal(shape).astype(np.float32) for shape in shapes)
    d = np.empty_like(c)
    products.started(a, b, c, d)
    assert np.allclose(d, 2 * (a.astype(float) @ b + c), rtol=1e-4, atol=1e-4), k
    found.update(d.tobytes())
for m in (1, 32, 61):
    a, b = (generator.integers(-(2**20), 2**20, shape, np.int32) for shape in ((3, m, 17), (3, 17, 256)))
    c = np.empty((3, m, 256), np.int32)
    products.batches(a, b, c)
    assert (c == (a.astype(np.int64) @ b + 7).astype(np.int32)).all(), m
x, w = generator.standard_normal((2, 6, 40, 3)), generator.standard_normal((3, 3, 3, 64))
y = np.empty((2, 4, 38, 64))
products.convolution(x, w, y)
windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
assert np.allclose(y, np.einsum("nhwcij,ijcf->nhwf", windows, w), rtol=1e-12, atol=1e-12)
found.update(y.tobytes())
print(found.hexdigest())
