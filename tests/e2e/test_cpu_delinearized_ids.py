"""Kernels that divide their ids run in parts: each work-item's work is done once, with its own numbers."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, compile_module

# Each leaves a number in %r. %g: place in the grid; %x: in the workgroup; %n: the divisor; %m: any number.
FORMS = {
    "unsigned": "%q = arith.divui %g, %n : index\n%s = arith.remui %g, %n : index",
    "signed": "%q = arith.divsi %g, %n : index\n%s = arith.remsi %g, %n : index",
    "floor": "%q = arith.floordivsi %g, %n : index\n%t = arith.muli %q, %n : index\n"
    "%s = arith.subi %g, %t : index",
    "in_the_workgroup": "%q = arith.divui %x, %n : index\n%s = arith.remui %x, %n : index",
    "moved": "%h = arith.addi %g, %m : index\n%q = arith.divsi %h, %n : index\n"
    "%s = arith.remsi %h, %n : index",
    "moved_unsigned": "%h = arith.addi %m, %g : index\n%q = arith.divui %h, %n : index\n"
    "%s = arith.remui %h, %n : index",
    "narrow": "%q0 = arith.divsi %g32, %n32 : i32\n%s0 = arith.remsi %g32, %n32 : i32\n"
    "%q = arith.index_cast %q0 : i32 to index\n%s = arith.index_cast %s0 : i32 to index",
    "narrow_moved": "%h = arith.addi %g32, %m32 : i32\n%q0 = arith.divsi %h, %n32 : i32\n"
    "%s0 = arith.remsi %h, %n32 : i32\n%q = arith.index_cast %q0 : i32 to index\n"
    "%s = arith.index_cast %s0 : i32 to index",
    "narrow_moved_unsigned": "%h = arith.addi %g32, %m32 : i32\n%q0 = arith.divui %h, %n32 : i32\n"
    "%s0 = arith.remui %h, %n32 : i32\n%q = arith.index_castui %q0 : i32 to index\n"
    "%s = arith.index_cast %s0 : i32 to index",
    "widened": "%h0 = arith.addi %g32, %m32 : i32\n%h = arith.extsi %h0 : i32 to i64\n"
    "%n64 = arith.index_cast %n : index to i64\n%q0 = arith.divsi %h, %n64 : i64\n"
    "%s0 = arith.remsi %h, %n64 : i64\n%q = arith.index_cast %q0 : i64 to index\n"
    "%s = arith.index_cast %s0 : i64 to index",
    "a_byte": "%b = arith.trunci %g32 : i32 to i8\n%k = arith.constant 100 : i8\n"
    "%q0 = arith.divui %b, %k : i8\n%s0 = arith.remui %b, %k : i8\n"
    "%q = arith.index_castui %q0 : i8 to index\n%s = arith.index_castui %s0 : i8 to index",
    "planes": "%w = arith.constant 20 : index\n%wn = arith.muli %w, %n : index\n"
    "%c = arith.divui %g, %wn : index\n%yy = arith.divui %g, %w : index\n%y1 = arith.remui %yy, %n : index\n"
    "%xx = arith.remui %g, %w : index\n%c1 = arith.muli %c, %w : index\n%q = arith.addi %c1, %y1 : index\n"
    "%s = arith.addi %xx, %c : index",
    "two_divisors": "%h = arith.addi %x, %m : index\n%k = arith.constant 33 : index\n"
    "%q = arith.divui %g, %n : index\n%s = arith.remui %h, %k : index",
    "a_row_of_its_own": "%h = arith.addi %g, %y : index\n%q = arith.divui %h, %n : index\n"
    "%s = arith.remui %h, %n : index",
}
MOVES = (0, -5, 7, 2**31 - 9, 2**31, 2**32 - 3, 2**63 - 20)
DIVISORS = (1, 15, 16, 17, 100, 512, 2**31 - 1, 2**31 + 5, 2**62 + 3, -7)


def kernel(name: str, form: str) -> str:
    """Adds to what each work-item finds in its place."""
    return f"""
  gpu.func @{name}(%out: memref<?xindex>, %n: index, %m: index) kernel {{
    %x = gpu.thread_id x
    %y = gpu.global_id y
    %g = gpu.global_id x
    %g32 = arith.index_cast %g : index to i32
    %n32 = arith.index_cast %n : index to i32
    %m32 = arith.index_cast %m : index to i32
    %bx = gpu.block_dim x
    %grid = gpu.grid_dim x
    %width = arith.muli %bx, %grid : index
    %row = arith.muli %y, %width : index
    %i = arith.addi %row, %g : index
    %prime = arith.constant 1000003 : index
    {form}
    %old = memref.load %out[%i] : memref<?xindex>
    %p = arith.muli %q, %prime : index
    %t1 = arith.addi %p, %s : index
    %new = arith.addi %old, %t1 : index
    memref.store %new, %out[%i] : memref<?xindex>
    gpu.return
  }}"""


# Products of rows and columns that are found by division, behind a bounds check; %rows * %n elements.
PRODUCT = """
  gpu.func @product(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>,
      %rows: index, %n: index, %k: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %id = gpu.global_id x
    %all = arith.muli %rows, %n : index
    %in = arith.cmpi ult, %id, %all : index
    scf.if %in {
      %y = arith.divsi %id, %n : index
      %x = arith.remsi %id, %n : index
      %first = arith.muli %y, %k : index
      %sum = scf.for %i = %c0 to %k step %c1 iter_args(%s = %zero) -> f32 {
        %at = arith.addi %first, %i : index
        %below = arith.muli %i, %n : index
        %of = arith.addi %below, %x : index
        %p = memref.load %a[%at] : memref<?xf32>
        %q = memref.load %b[%of] : memref<?xf32>
        %r = arith.mulf %p, %q : f32
        %t = arith.addf %s, %r : f32
        scf.yield %t : f32
      }
      memref.store %sum, %c[%id] : memref<?xf32>
    }
    gpu.return
  }"""


# Adds the square of each number below %all to its place, in steps of the grid.
GRID = """
  gpu.func @grid(%out: memref<?xindex>, %n: index, %all: index, %from: index) kernel {
    %x = gpu.global_id x
    %size = gpu.block_dim x
    %groups = gpu.grid_dim x
    %step = arith.muli %size, %groups : index
    %first = arith.addi %x, %from : index
    scf.for %i = %first to %all step %step {
      %row = arith.divsi %i, %n : index
      %column = arith.remsi %i, %n : index
      %before = arith.muli %row, %n : index
      %at = arith.addi %before, %column : index
      %old = memref.load %out[%at] : memref<?xindex>
      %square = arith.muli %at, %at : index
      %t = arith.addi %square, %x : index
      %new = arith.addi %old, %t : index
      memref.store %new, %out[%at] : memref<?xindex>
    }
    gpu.return
  }"""


@pytest.fixture(scope="module")
def module(any_device: Device, tmp_path_factory: pytest.TempPathFactory) -> Module:
    text = f"gpu.module @k {{{''.join(kernel(n, f) for n, f in FORMS.items())}{PRODUCT}{GRID}\n}}"
    return any_device.load(compile_module(text, tmp_path_factory.mktemp("divided"), opt_level=1))


@pytest.mark.parametrize("name", FORMS)
def test_numbers_are_those_of_each_work_item_alone(module: Module, name: str) -> None:
    for block, grid in ((7, 3), (2, 2)), ((40, 1), (3, 2)), ((600, 1), (2, 1)):
        for n in DIVISORS:
            for m in MOVES if "%m" in FORMS[name] else (0,):
                if "n32" in FORMS[name] and n % 2**32 == 0:
                    continue
                found = []
                for fibers in (False, True):
                    out = np.zeros(int(np.prod(block) * np.prod(grid)), np.int64)
                    module.launch(name, grid, block, out, np.int64(n), np.int64(m), fibers=fibers)
                    found.append(out)
                np.testing.assert_array_equal(*found, err_msg=f"n = {n}, m = {m}, block {block}")


@pytest.mark.parametrize("n", [1, 8, 15, 16, 31, 64, 70, 100, 129, 300])
def test_products(module: Module, n: int) -> None:
    generator = np.random.default_rng(n)
    a, b = generator.integers(-9, 9, (37, 21)), generator.integers(-9, 9, (21, n))
    c = np.zeros((37, n), np.float32)
    arguments = (a.astype(np.float32).ravel(), b.astype(np.float32).ravel(), c.ravel())
    module.launch("product", -(-37 * n // 200), 200, *arguments, *map(np.int64, (37, n, 21)))
    np.testing.assert_array_equal(arguments[2].reshape(37, n), a @ b)


@pytest.mark.parametrize("n", [3, 16, 31, 64, 100, 1000])
def test_loops_in_steps_of_the_grid(module: Module, n: int) -> None:
    for grid, block, items, first in (1, 64, 500, 0), (3, 40, 1000, 7), (2, 300, 450, 0), (2, 30, 5, 9):
        out = np.zeros(items, np.int64)
        module.launch("grid", grid, block, out, np.int64(n), np.int64(items), np.int64(first))
        numbers = np.arange(items)
        expected = np.where(numbers < first, 0, numbers**2 + (numbers - first) % (grid * block))
        np.testing.assert_array_equal(out, expected, err_msg=f"{grid} x {block}, {items} from {first}")


def test_a_division_that_is_not_reached_may_be_by_zero(module: Module) -> None:
    c = np.ones(4, np.float32)
    module.launch("product", 1, 64, c, c, c, np.int64(0), np.int64(0), np.int64(1))
    np.testing.assert_array_equal(c, 1)
