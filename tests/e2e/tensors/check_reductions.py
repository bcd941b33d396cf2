"""Check the reductions of reductions.mlir by NumPy, and print the bits of sums."""

import sys

import numpy as np
import reductions

generator = np.random.default_rng(4)
for n in (0, 1, 31, 32, 33, 2048, 2049, 5000, 100_003, 1_100_000):
    x = generator.standard_normal(n).astype(np.float32)
    y = np.empty_like(x)
    total, dot, most, least = (np.zeros((), np.float32) for _ in range(4))
    reductions.numbers(x, y, total, dot, most, least)
    assert (y == 2 * x).all()
    wide = x.astype(float)
    for found, expected, size in (
        (total, 5 + 2 * wide.sum(), 2 * abs(wide).sum()),
        (dot, 5 + 2 * (wide * wide).sum(), 2 * (wide * wide).sum()),
    ):
        assert abs(found - expected) <= 2e-6 * (5 + size), (n, found, expected)
    assert most == max([np.float32(-3e38), *y]), (n, most)
    assert least == min([np.float32(5), *y]), (n, least)
    sys.stdout.write(total.tobytes().hex() + " ")
    if n < 2:
        continue
    x = generator.integers(-(2**31), 2**31, (n // 2 % 999 + 1, n // (n // 2 % 999 + 1)), np.int32)
    y, numbers = np.empty_like(x), [np.zeros((), np.int32) for _ in range(5)]
    reductions.whole(x, y, *numbers)
    with np.errstate(all="ignore"):
        assert (y == x + np.int32(3)).all()
        flat, three = np.append(y, np.int32(3)), np.int32(3)
        expected = [
            np.add.reduce(flat),
            np.multiply.reduce(flat),
            flat.min(),
            flat.view(np.uint32).max().view(np.int32),
            np.bitwise_xor.reduce(flat),
        ]
    right = [int(np.int64(value).astype(np.int32)) for value in expected]
    assert [int(value) for value in numbers] == right, (x.shape, numbers)
x, w = generator.standard_normal((3, 5001)), generator.standard_normal(5001)
sums, soft = np.empty(3), np.empty_like(x)
reductions.rows(x, w, sums, soft)
assert np.allclose(sums, x @ w, rtol=1e-12, atol=1e-10)
powers = np.exp(x - x.max(1, keepdims=True))
assert np.allclose(soft, powers / powers.sum(1, keepdims=True), rtol=1e-12, atol=0)
