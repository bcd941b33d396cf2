"""Check the functions of mix.mlir by NumPy."""

import mix
import numpy as np


def check(name, arguments, *expected):
    """Results are right, and arguments are kept."""
    before = [np.copy(argument) for argument in arguments]
    found = [np.full(result.shape, -1, result.dtype) for result in expected]
    getattr(mix, name)(*arguments, *found)
    for result, right in zip(found, expected, strict=True):
        assert np.allclose(result, right, rtol=1e-4, atol=1e-4), (name, result, right)
    for argument, kept in zip(arguments, before, strict=True):
        assert np.array_equal(argument, kept), name


for n in (1000, 0):
    x = (np.arange(n) % 7).astype(np.float32)
    check("sum_of_squares", (x,), np.array(x @ x))
for n, start in ((300, 0.0), (300, 0.75), (1, 0.3)):
    x = (start + np.arange(n) / 100).astype(np.float32)
    t = x.copy()
    for _ in range(5):
        t = t / 2 + x
        if t[0] > 0.5:
            t = t * t[0] + x
        else:
            t[0] = 0.5
    check("iterate", (x, 5), t)
x = (np.arange(48) ** 2 % 31).astype(np.int32).reshape(6, 8)
w = x.copy()
w[2:5] = x[:3] + x[1::2]
check("parts", (x,), np.pad(w.T, ((0, 0), (1, 3)), constant_values=7))
x = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
check("two", (x,), np.exp(x).ravel(), x)
x = (np.arange(210) % 13).astype(np.float32).reshape(2, 3, 5, 7)
check("batch", (x,), x.sum(3))
x = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]], np.float32)
for count in (4, 0):
    check("power", (x, count), np.linalg.matrix_power(x, count + 1))
assert (mix.double_state(3), mix.double_state(1)) == (8, 16)
for first in (False, True):
    a, b = np.arange(40, dtype=np.float32), np.arange(100, 140, dtype=np.float32)
    u, v = a[1::3] * (2 if first else 1), b[2:28:2] * (1 if first else 2)
    for done in (True, False):
        mix.one_of(a[1::3], b[2:28:2], first, done)
    assert np.array_equal(a[1::3], u) and np.array_equal(b[2:28:2], u + v), (a, b)
    assert (a[2], b[3]) == (2, 103), "a gap"
x = np.arange(5, dtype=np.float32)
mix.increment(x)
assert np.array_equal(x, np.arange(1, 6))
