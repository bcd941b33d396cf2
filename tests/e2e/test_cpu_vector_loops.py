"""Loops in vectors over work-items leave the same bits as each work-item on its own."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, compile_module
from kernels.random.sums import SumKernel

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "12"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "4"))  # kernel 3 is one of a MB of LLVM IR
CHIPS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
PER_MODULE = 4


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


# What 8 bits overflow in jumps by 256; in a difference, a second jump makes up for the first.
JUMPS = """gpu.module @k {
  gpu.func @loads(%b: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %moved = arith.addi %x, %c3 : index
    %narrow = arith.index_cast %moved : index to i8
    %wide = arith.index_cast %narrow : i8 to index
    %jump = arith.subi %moved, %wide : index
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %at = arith.muli %jump, %n : index
      %p = memref.load %b[%k, %x] : memref<?x?xf32>
      %q = memref.load %b[%k, %at] : memref<?x?xf32>
      %t = arith.mulf %p, %q : f32
      %u = arith.addf %s, %t : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  gpu.func @guard(%b: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c20 = arith.constant 20 : index
    %c23 = arith.constant 23 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %left = arith.addi %x, %c20 : index
    %right = arith.addi %x, %c23 : index
    %narrow_left = arith.index_cast %left : index to i8
    %narrow_right = arith.index_cast %right : index to i8
    %wide_left = arith.index_cast %narrow_left : i8 to index
    %wide_right = arith.index_cast %narrow_right : i8 to index
    %difference = arith.subi %wide_left, %wide_right : index
    %in = arith.cmpi slt, %difference, %c5 : index
    scf.if %in {
      %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %b[%k, %x] : memref<?x?xf32>
        %u = arith.addf %s, %p : f32
        scf.yield %u : f32
      }
      memref.store %sum, %c[%x] : memref<?xf32>
    }
    gpu.return
  }
}"""


def test_two_jumps_of_narrow_integers(device: Device, tmp_path: Path) -> None:
    module = device.load(compile_module(JUMPS, tmp_path, located=False, opt_level=1))
    x = np.arange(192)
    rows = np.arange(2 * 1024, dtype=np.float32).reshape(2, 1024)
    sums = np.full(len(x), -1, np.float32)
    module.launch("loads", (3, 1), (64, 1), rows, sums)
    jump = (x + 3) - (x + 3).astype(np.int8)
    np.testing.assert_array_equal(sums, (rows[:, x] * rows[:, 2 * jump]).sum(axis=0))
    sums = np.full(len(x), -1, np.float32)
    module.launch("guard", (3, 1), (64, 1), rows, sums)
    difference = (x + 20).astype(np.int8).astype(int) - (x + 23).astype(np.int8)
    np.testing.assert_array_equal(sums, np.where(difference < 5, rows[:, x].sum(axis=0), -1))


def test_an_index_of_hundreds_of_sums(device: Device, tmp_path: Path) -> None:
    chain = "\n".join(f"%v{n + 1} = arith.addi %v{n}, %n : index" for n in range(600))
    text = f"""gpu.module @k {{
      gpu.func @long(%a: memref<?xf32>, %n: index) kernel {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %zero = arith.constant 0.0 : f32
        %v0 = gpu.global_id x
        {chain}
        %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {{
          %v = memref.load %a[%v600] : memref<?xf32>
          %u = arith.addf %s, %v : f32
          scf.yield %u : f32
        }}
        memref.store %sum, %a[%v0] : memref<?xf32>
        gpu.return
      }}
    }}"""
    module = device.load(compile_module(text, tmp_path, located=False, opt_level=1))
    numbers = np.arange(1300, dtype=np.float32)
    wanted = np.concatenate([2 * numbers[1200:1264], numbers[64:]])
    module.launch("long", (1, 1), (64, 1), numbers, 2)
    np.testing.assert_array_equal(numbers, wanted)


@pytest.mark.parametrize("kind", ["i8", "i32", "i64"])
def test_a_row_is_chosen_by_an_integer_from_outside_the_loop(
    device: Device, tmp_path: Path, kind: str
) -> None:
    text = f"""gpu.module @k {{
      gpu.func @rows(%a: memref<?x?xf32>, %c: memref<?xf32>, %n: index, %first: index) kernel {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %zero = arith.constant 0.0 : f32
        %x = gpu.global_id x
        %narrow = arith.index_cast %x : index to {kind}
        %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {{
          %start = arith.index_cast %first : index to {kind}
          %moved = arith.addi %narrow, %start : {kind}
          %row = arith.index_cast %moved : {kind} to index
          %v = memref.load %a[%row, %k] : memref<?x?xf32>
          %u = arith.addf %s, %v : f32
          scf.yield %u : f32
        }}
        memref.store %sum, %c[%x] : memref<?xf32>
        gpu.return
      }}
    }}"""
    module = device.load(compile_module(text, tmp_path, located=False, opt_level=1))
    rows, sums = np.arange(103 * 40, dtype=np.float32).reshape(103, 40), np.zeros(100, np.float32)
    module.launch("rows", (1, 1), (100, 1), rows, sums, 40, 3)
    np.testing.assert_array_equal(sums, rows[3:].sum(axis=1))
