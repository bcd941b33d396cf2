"""Loops in vectors over work-items leave the same bits as each work-item on its own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, compile_module
from kernels.random.sums import SumKernel

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "30"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))
CHIPS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
PER_MODULE = 15


def results(module: Module, kernel: SumKernel, *, fibers: bool) -> list[np.ndarray]:
    arguments = kernel.arguments
    module.launch(kernel.name, kernel.grid, kernel.block, *arguments, fibers=fibers)
    return [array for array in arguments if isinstance(array, np.ndarray)]


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
def test_loops_in_vectors_are_right(any_device: Device, tmp_path: Path, first: int) -> None:
    kernels = [SumKernel(seed) for seed in range(first, first + PER_MODULE)]
    text = f"gpu.module @k {{\n{''.join(kernel.text for kernel in kernels)}}}"
    chip = CHIPS[first // PER_MODULE % len(CHIPS)]
    chip = chip if any_device.supports(chip) else CHIPS[0]
    plain, fast = (
        any_device.load(
            compile_module(text, tmp_path / str(level), located=False, chip=chip, opt_level=level)
        )
        for level in (0, 1)
    )
    for kernel in kernels:
        wanted = results(plain, kernel, fibers=True)
        for module in (plain, fast):
            for found, right in zip(results(module, kernel, fibers=False), wanted, strict=True):
                np.testing.assert_array_equal(found, right, err_msg=f"{kernel.name}\n{kernel.text}")


@pytest.mark.parametrize(("operations", "in_vectors"), [(200, True), (300, False)])
def test_long_loops_are_left_to_llvm(tmp_path: Path, operations: int, in_vectors: bool) -> None:
    chain = "\n".join(f"%v{n + 1} = arith.mulf %v{n}, %s : f32" for n in range(operations))
    out = compile_module(
        f"""gpu.module @k {{
          gpu.func @long(%a: memref<?xf32>, %n: index) kernel {{
            %c0 = arith.constant 0 : index
            %c1 = arith.constant 1 : index
            %zero = arith.constant 0.0 : f32
            %x = gpu.global_id x
            %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {{
              %v0 = memref.load %a[%x] : memref<?xf32>
              {chain}
              scf.yield %v{operations} : f32
            }}
            memref.store %sum, %a[%x] : memref<?xf32>
            gpu.return
          }}
        }}""",
        tmp_path,
        located=False,
        opt_level=0,
    )
    assert ("<16 x float>" in (out / "llvm").read_text()) == in_vectors
