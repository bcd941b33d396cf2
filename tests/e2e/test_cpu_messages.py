"""What ends a program that runs kernels on the CPU device, and what kernels print."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from e2e.command import Outcome, run_python
from e2e.cpu_harness import compile_module

DRIVER = """
import sys
import numpy as np
from pathlib import Path
from e2e.cpu_harness import Device
module = Device(Path(sys.argv[1])).load(Path(sys.argv[2]))
{body}
module.device._c.fflush(None)
"""


def _program(runtime: Path, out: Path, body: str, threads: int = 2) -> Outcome:
    environment = {"GPUBUILD_CPU_THREADS": str(threads), "PYTHONPATH": str(Path(__file__).parents[1])}
    script = DRIVER.format(body=body)
    return run_python(script, runtime, out, env=os.environ | environment, code=None)


BROKEN = """gpu.module @broken {
  gpu.func @leaves(%n: index) kernel {
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %n : index
    scf.if %in { gpu.barrier }
    gpu.return
  }
  gpu.func @asserts(%n: index) kernel {
    %g = gpu.global_id x
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "g is too large"
    gpu.return
  }
  gpu.func @prints(%x: f32) kernel {
    %g = gpu.global_id x
    %h = arith.constant 2.5 : f16
    %k = arith.constant -3 : i32
    gpu.printf "item %lld of %f %f\\0A", %g, %x, %h : index, f32, f16
    gpu.printf "%d %lld %*d\\0A", %g, %k, %k, %k : index, i32, i32, i32
    gpu.return
  }
  gpu.func @fixed() kernel attributes {known_block_size = array<i32: 8, 1, 1>} { gpu.return }
}"""


@pytest.fixture(scope="session")
def broken(tmp_path_factory) -> Path:
    return compile_module(BROKEN, tmp_path_factory.mktemp("broken"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'module.launch("leaves", 4, 64, np.int64(10))',
            r"in workgroup \(\d, 0, 0\) 10 of 64 work-items wait at gpu\.barrier in @leaves, "
            r"but work-item \(10, 0, 0\) does not reach it",
        ),
        (
            'module.launch("asserts", 2, 8, np.int64(11))',
            r"assertion failed: g is too large, in workgroup \(1, 0, 0\), work-item \(3, 0, 0\)",
        ),
        ('module.launch("leaves", 1, (1024, 2), np.int64(0))', r"1024 x 2 x 1 has more than 1024 work-items"),
        ('module.launch("leaves", (1 << 31, 1 << 31, 1 << 31), 1, np.int64(0))', r"grid .* is too large"),
        ('module.launch("leaves", 3, 1, np.int64(0), cluster=2)', r"cannot be divided into clusters of 2"),
        ('module.launch("leaves", 1, 1, np.int64(0), np.int64(0))', r"passes 2 parameters, .* kernel has 1"),
        ('module.launch("fixed", 1, 16)', r"compiled for workgroups of 8 x 1 x 1 work-items, not 16"),
    ],
)  # fmt: skip
def test_fatal_messages(runtime, broken, body, message):
    done = _program(runtime, broken, body)
    assert done.code == 1, done.err
    assert re.search(message, done.err), done.err
    assert "kernel" in done.err


@pytest.mark.parametrize("fibers", [False, True])
def test_printf(runtime, broken, fibers):
    done = _program(
        runtime, broken, f'module.launch("prints", 2, 4, np.float32(0.5), fibers={fibers})', threads=1
    )
    assert done.code == 0, done.err
    lines = [(f"item {i} of 0.500000 2.500000", f"{i} -3 -3 ") for i in range(8)]  # %*d with -3: to the left
    assert done.out.splitlines() == [line for both in lines for line in both]


@pytest.mark.parametrize("elements", [1 << 17, 1 << 20])
def test_private_memory_never_reaches_into_a_neighbours(runtime, tmp_path, elements):
    """512 KiB and 4 MiB: the stacks of work-items are as large as the kernel needs."""
    text = f"""gpu.module @k {{
  gpu.func @large(%i: index, %j: index, %out: memref<?xi32>) kernel {{
    %t = gpu.thread_id x
    %p = memref.alloca() : memref<{elements}xi32>
    %v = arith.index_cast %t : index to i32
    memref.store %v, %p[%i] : memref<{elements}xi32>
    gpu.barrier
    %r = memref.load %p[%j] : memref<{elements}xi32>
    memref.store %r, %out[%t] : memref<?xi32>
    gpu.return
  }}
}}"""
    body = """
out = np.full(8, -1, np.int32)
module.launch("large", 1, 8, np.int64(5), np.int64(5), out)
assert list(out) == list(range(8))
"""
    done = _program(runtime, compile_module(text, tmp_path), body)
    assert done.code == 0, (done.code, done.err)
