"""Products of tensors, whose work-items compute tiles: NumPy's results, equal bits on all devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from devices import at_hand
from e2e.command import gpubuild
from simulators.cuda_driver import standin

SOURCE = Path(__file__).parent / "tensors" / "products.mlir"
# Below, at and above the sizes of a workgroup and of a workgroup of tiles, which are 32 to 128.
PROGRAM = """
import hashlib
import numpy as np
import products

generator = np.random.default_rng(4)
found = hashlib.sha256()
SIZES = ((1, 1, 1), (9, 5, 33), (31, 2, 128), (32, 1, 127), (33, 7, 129), (70, 40, 300), (5, 0, 9))
for m, k, n in SIZES:
    a, b = (generator.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    products.product(a, b, c)
    assert np.allclose(c, a.astype(float) @ b, rtol=1e-5, atol=1e-5), (m, k, n)
    found.update(c.tobytes())
a, b, c = (generator.standard_normal(shape).astype(np.float32) for shape in ((45, 24), (24, 130), (45, 130)))
d = np.empty_like(c)
products.started(a, b, c, d)
assert np.allclose(d, 2 * (a.astype(float) @ b + c), rtol=1e-5, atol=1e-5)
found.update(d.tobytes())
for m in (1, 32, 61):
    a, b = (generator.integers(-2**20, 2**20, shape, np.int32) for shape in ((3, m, 17), (3, 17, 256)))
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
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("products")
    (folder / "targets.yaml").write_text(
        "version: 1\ntargets: {sm_60: {}, gfx90a: {}, spirv: {}, cpu: {}}\nprograms:\n"
        f"  products: {{sources: [{os.path.relpath(SOURCE, folder)}], pipeline: linalg, product: shared}}\n"
    )
    outcome = gpubuild("build", cwd=folder, seeded=True)
    assert outcome.code == 0, outcome.out + outcome.err
    return folder / "build" / "products"


def bits(folder: Path, environment: dict[str, str]) -> str:
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
    return bits(folder, {"GPUBUILD_DEVICE": "cpu"})


def test_with_memory_apart(folder: Path, on_the_cpu: str, tmp_path: Path) -> None:
    standin.translate(list(folder.glob("*.sm_60.ptx")), "7.0", tmp_path)
    assert bits(folder, standin.environment("7.0", modules=tmp_path)) == on_the_cpu


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
def test_on_opencl(folder: Path, on_the_cpu: str) -> None:
    assert bits(folder, {**(at_hand.opencl() or {}), "GPUBUILD_DEVICE": "opencl"}) == on_the_cpu
