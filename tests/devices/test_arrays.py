"""A library's Python module with arrays of CuPy and PyTorch and their streams, on an NVIDIA GPU."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from devices import at_hand
from e2e.command import run_python
from e2e.library_programs import build_library
from e2e.test_python_module import KERNELS, SCALE

START = """
import sys
sys.path[:0] = sys.argv[1:]
import lib, scale
import numpy as np
"""
SCRIPTS = {
    "numpy": """
numbers = np.arange(64, dtype=np.int32)
with lib.library.stream() as stream:
    for _ in range(5):
        lib.lambda_[4, 16](numbers, stream=stream)
assert (numbers == np.arange(64) * 32).all()
""",
    "cupy": """
import cupy
numbers, stream = cupy.arange(1 << 20, dtype="i4"), cupy.cuda.Stream(non_blocking=True)
with stream:
    more = numbers + 1
    for _ in range(3):
        lib.lambda_[1 << 12, 256](more, stream=stream.ptr)
stream.synchronize()
assert (more == (numbers + 1) * 8).all()
x = cupy.ones(4, dtype="f4")
for _ in range(3):
    try:
        scale.scale(x, 2000)
        sys.exit("a workgroup that is too large is launched")
    except scale.LibraryError as error:
        assert "block 2000x1x1" in str(error)
scale.scale(x, 4)
assert x.get().tolist() == [2] * 4
""",
    "torch": """
import threading, torch
stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    numbers = torch.arange(1 << 20, dtype=torch.int32, device="cuda") + 1
    for _ in range(3):
        lib.lambda_[1 << 12, 256](numbers, stream=stream.cuda_stream)
    numbers *= 2
torch.cuda.synchronize()
assert (numbers == (torch.arange(1 << 20, dtype=torch.int32, device="cuda") + 1) * 16).all()
x = torch.arange(8, dtype=torch.float32, device="cuda")[::2]
y, z = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
lib.add[1, 4](x, 0.5, True, 3 + 0.25j, -1, y, z)
assert y.tolist() == z.tolist() == (x + 0.5 + 0.25 - 1).tolist()
wrong = []
def work(number):
    values, own = torch.full((4096,), number, dtype=torch.int32, device="cuda"), torch.cuda.Stream()
    own.wait_stream(torch.cuda.current_stream())
    for _ in range(10):
        lib.lambda_[16, 256](values, stream=own.cuda_stream)
    own.synchronize()
    if not (values == number * 1024).all():
        wrong.append(number)
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
a = torch.randn(512, 512, device="cuda")
assert torch.isfinite(a @ a).all()
""",
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("arrays")
    chips = [device.chip] if (device := at_hand.cuda()) else []
    return [build_library(folder / n, n, t, *chips) for n, t in (("lib", KERNELS), ("scale", SCALE))]


def run(libraries: list[Path], script: str, device: str) -> None:
    run_python(START + script, *libraries, env=os.environ | {"GPUBUILD_DEVICE": device})


def test_on_the_cpu(libraries: list[Path]) -> None:
    run(libraries, SCRIPTS["numpy"], "cpu")


@pytest.mark.cuda
@pytest.mark.skipif(at_hand.cuda() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("package", SCRIPTS)
def test_on_a_gpu(libraries: list[Path], package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"no {package}")
    run(libraries, SCRIPTS[package], "cuda")
