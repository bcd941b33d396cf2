"""Times of kernels with barriers on the CPU: fission and fibers against plain C, in one run.

    python bench/cpu_tiers.py [--repeat 15] [--threads 1]

Prints one line per kernel: the shortest time in milliseconds. Every result is compared with NumPy's.
Needs a C compiler; results of one machine are in docs/design/cpu-fission.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from e2e.cpu_harness import Device, build_runtime, compile_module

TILE, BLOCK = 16, 256
TILE_MEMORY = f"memref<{TILE}x{TILE}xf32, #gpu.address_space<workgroup>>"
SUMS_MEMORY = f"memref<{BLOCK}xf32, #gpu.address_space<workgroup>>"
KERNELS = f"""gpu.module @k {{
  gpu.func @matmul(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>)
      workgroup(%sa : {TILE_MEMORY}, %sb : {TILE_MEMORY}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tile = arith.constant {TILE} : index
    %K = memref.dim %A, %c1 : memref<?x?xf32>
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %col = gpu.global_id x
    %row = gpu.global_id y
    %zero = arith.constant 0.0 : f32
    %r = scf.for %k = %c0 to %K step %tile iter_args(%acc = %zero) -> f32 {{
      %kx = arith.addi %k, %tx : index
      %ky = arith.addi %k, %ty : index
      %a = memref.load %A[%row, %kx] : memref<?x?xf32>
      memref.store %a, %sa[%ty, %tx] : {TILE_MEMORY}
      %b = memref.load %B[%ky, %col] : memref<?x?xf32>
      memref.store %b, %sb[%ty, %tx] : {TILE_MEMORY}
      gpu.barrier
      %r2 = scf.for %j = %c0 to %tile step %c1 iter_args(%acc2 = %acc) -> f32 {{
        %x = memref.load %sa[%ty, %j] : {TILE_MEMORY}
        %y = memref.load %sb[%j, %tx] : {TILE_MEMORY}
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %acc2, %p : f32
        scf.yield %s : f32
      }}
      gpu.barrier
      scf.yield %r2 : f32
    }}
    memref.store %r, %C[%row, %col] : memref<?x?xf32>
    gpu.return
  }}
  gpu.func @tree(%a: memref<?xf32>, %out: memref<?xf32>) workgroup(%s : {SUMS_MEMORY}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %half = arith.constant {BLOCK // 2} : index
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    memref.store %v, %s[%t] : {SUMS_MEMORY}
    gpu.barrier
    %end = scf.for %i = %c0 to %c8 step %c1 iter_args(%n = %half) -> index {{
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {{
        %o = arith.addi %t, %n : index
        %x = memref.load %s[%t] : {SUMS_MEMORY}
        %y = memref.load %s[%o] : {SUMS_MEMORY}
        %z = arith.addf %x, %y : f32
        memref.store %z, %s[%t] : {SUMS_MEMORY}
      }}
      gpu.barrier
      %next = arith.shrui %n, %c1 : index
      scf.yield %next : index
    }}
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {{
      %b = gpu.block_id x
      %sum = memref.load %s[%c0] : {SUMS_MEMORY}
      memref.store %sum, %out[%b] : memref<?xf32>
    }}
    gpu.return
  }}
  gpu.func @all_reduce(%a: memref<?xf32>, %out: memref<?xf32>) kernel {{
    %c0 = arith.constant 0 : index
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %sum = gpu.all_reduce add %v uniform {{}} : (f32) -> (f32)
    %first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {{
      %b = gpu.block_id x
      memref.store %sum, %out[%b] : memref<?xf32>
    }}
    gpu.return
  }}
}}"""

# What one would write without a GPU in mind, in an order that vectorises.
C_SOURCE = f"""#include <stddef.h>
#include <string.h>
void plain(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {{
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            for (size_t j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}}
void sums(const float *restrict a, float *restrict out, size_t groups) {{
    for (size_t g = 0; g < groups; g++) {{
        float lanes[16] = {{0}};
        for (size_t i = 0; i < {BLOCK}; i += 16)
            for (size_t l = 0; l < 16; l++) lanes[l] += a[g * {BLOCK} + i + l];
        float sum = 0;
        for (size_t l = 0; l < 16; l++) sum += lanes[l];
        out[g] = sum;
    }}
}}
"""


def milliseconds(work: Callable[[], object], repeat: int) -> float:
    """The shortest of ``repeat`` runs after one that warms up: other programs can only add to it."""
    work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeat", type=int, default=15)
    options.add_argument("--threads", type=int, default=1)
    chosen = options.parse_args()
    os.environ["GPUBUILD_CPU_THREADS"] = str(chosen.threads)
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), chosen.repeat)


def measure(folder: Path, repeat: int) -> None:
    module = Device(build_runtime(folder)).load(compile_module(KERNELS, folder / "k", chip="native"))
    (folder / "plain.c").write_text(C_SOURCE)
    command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", "plain.c", "-o", "plain.so"]
    subprocess.run(command, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "plain.so"))
    random = np.random.default_rng(1)
    for n in (512, 1024):
        a, b = random.random((2, n, n), np.float32)
        c = np.zeros((n, n), np.float32)

        def kernel(*, fibers: bool, n=n, a=a, b=b, c=c) -> None:
            module.launch("matmul", (n // TILE, n // TILE), (TILE, TILE), a, b, c, fibers=fibers)

        def native(n=n, a=a, b=b, c=c) -> None:
            library.plain(*(ctypes.c_void_p(m.ctypes.data) for m in (a, b, c)), ctypes.c_size_t(n))

        line = {
            module.tier("matmul"): milliseconds(lambda k=kernel: k(fibers=False), repeat),
            "fibers": milliseconds(lambda k=kernel: k(fibers=True), 1),
            "C plain": milliseconds(native, repeat),
        }
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)
        kernel(fibers=False)
        np.testing.assert_allclose(c, a @ b, rtol=1e-4)
        report(f"tiled matmul {n}^3", line)
    data = random.random(1 << 24, np.float32)
    groups = len(data) // BLOCK
    out = np.zeros(groups, np.float32)
    expected = data.reshape(groups, BLOCK).sum(axis=1)
    for kernel_name in ("tree", "all_reduce"):
        line = {}
        for fibers in (False, True):
            out[:] = 0
            label = "fibers" if fibers else module.tier(kernel_name)
            line[label] = milliseconds(
                lambda k=kernel_name, f=fibers: module.launch(k, groups, BLOCK, data, out, fibers=f),
                1 if fibers else repeat,
            )
            np.testing.assert_allclose(out, expected, rtol=1e-4)
        line["C plain"] = milliseconds(
            lambda: library.sums(
                ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_size_t(groups)
            ),
            repeat,
        )
        np.testing.assert_allclose(out, expected, rtol=1e-4)
        report(f"block reduction 2^24, {kernel_name}", line)


def report(title: str, line: dict[str, float]) -> None:
    """One line of text."""
    print(f"{title}: " + ", ".join(f"{name} {value:.1f} ms" for name, value in line.items()), flush=True)


if __name__ == "__main__":
    main()
