"""Reductions of tensors to one number and of few long rows: NumPy's results, equal bits on all devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from devices import at_hand
from e2e.command import gpubuild
from simulators.cuda_driver import standin

SOURCE = Path(__file__).parent / "tensors" / "reductions.mlir"
PROGRAM = """
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
    for found, expected, size in ((total, 5 + 2 * wide.sum(), 2 * abs(wide).sum()),
                                  (dot, 5 + 2 * (wide * wide).sum(), 2 * (wide * wide).sum())):
        assert abs(found - expected) <= 2e-6 * (5 + size), (n, found, expected)
    assert most == max([np.float32(-3e38), *y]), (n, most)
    assert least == min([np.float32(5), *y]), (n, least)
    sys.stdout.write(total.tobytes().hex() + " ")
    if n < 2:
        continue
    x = generator.integers(-2**31, 2**31, (n // 2 % 999 + 1, n // (n // 2 % 999 + 1)), np.int32)
    y, numbers = np.empty_like(x), [np.zeros((), np.int32) for _ in range(5)]
    reductions.whole(x, y, *numbers)
    with np.errstate(all="ignore"):
        assert (y == x + np.int32(3)).all()
        flat, three = np.append(y, np.int32(3)), np.int32(3)
        expected = [np.add.reduce(flat), np.multiply.reduce(flat), flat.min(),
                    flat.view(np.uint32).max().view(np.int32), np.bitwise_xor.reduce(flat)]
    right = [int(np.int64(value).astype(np.int32)) for value in expected]
    assert [int(value) for value in numbers] == right, (x.shape, numbers)
x, w = generator.standard_normal((3, 5001)), generator.standard_normal(5001)
sums, soft = np.empty(3), np.empty_like(x)
reductions.rows(x, w, sums, soft)
assert np.allclose(sums, x @ w, rtol=1e-12, atol=1e-10)
powers = np.exp(x - x.max(1, keepdims=True))
assert np.allclose(soft, powers / powers.sum(1, keepdims=True), rtol=1e-12, atol=0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reductions")
    (folder / "targets.yaml").write_text(
        "version: 1\ntargets: {sm_60: {}, spirv: {}, cpu: {}}\nprograms:\n"
        f"  reductions: {{sources: [{os.path.relpath(SOURCE, folder)}], pipeline: linalg, product: shared}}\n"
    )
    outcome = gpubuild("build", cwd=folder, seeded=True)
    assert outcome.code == 0, outcome.out + outcome.err
    assert "stays on the host" not in outcome.out + outcome.err
    return folder / "build" / "reductions"


def sums(folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def on_the_cpu(folder: Path) -> str:
    found = sums(folder, {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "2"})
    assert sums(folder, {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1"}) == found
    return found


def test_with_memory_apart(folder: Path, on_the_cpu: str, tmp_path: Path) -> None:
    standin.translate(list(folder.glob("*.sm_60.ptx")), "7.0", tmp_path)
    assert sums(folder, standin.environment("7.0", modules=tmp_path)) == on_the_cpu


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
def test_on_opencl(folder: Path, on_the_cpu: str) -> None:
    environment = at_hand.opencl() or {}
    assert sums(folder, {**environment, "GPUBUILD_DEVICE": "opencl"}) == on_the_cpu
