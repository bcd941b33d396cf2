"""Loops that the CPU compiler puts around the loop over work-items: the bits stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

WG = "#gpu.address_space<workgroup>"
HEAD = """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c128 = arith.constant 128 : index
    %hop = arith.constant 100 : i8
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.5 : f32
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %x = gpu.thread_id x
    %gx = gpu.global_id x
    %gy = gpu.global_id y
    %gz = gpu.global_id z
    %by = gpu.block_dim y
    %gridy = gpu.grid_dim y
    %rows = arith.muli %by, %gridy : index
    %rz = arith.muli %gz, %rows : index
    %row = arith.addi %rz, %gy : index
    %bx = gpu.block_dim x
"""
# Each leaves one number for each work-item in %r; rows of %a are long enough for all work-items in x.
BODIES = {
    "sum": """
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }""",
    "swapped": """
    %r, %other, %flag = scf.for %k = %c1 to %n step %c3
        iter_args(%s = %zero, %u = %half, %odd = %true) -> (f32, f32, i1) {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %t = arith.addf %s, %v : f32
      %w = arith.select %odd, %t, %u : f32
      %even = arith.xori %odd, %true : i1
      scf.yield %u, %w, %even : f32, f32, i1
    }""",
    "nested": """
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %scale = memref.load %a[%k, %c0] : memref<?x?xf32>
      %twice = arith.muli %k, %c1 : index
      %in = scf.for %j = %twice to %n step %c1 iter_args(%p = %s) -> f32 {
        %at = arith.addi %gx, %c0 : index
        %v = memref.load %a[%j, %at] : memref<?x?xf32>
        %m = arith.mulf %v, %scale : f32
        %q = arith.addf %p, %m : f32
        scf.yield %q : f32
      }
      %own = memref.load %a[%k, %gx] : memref<?x?xf32>
      %t = arith.subf %in, %own : f32
      scf.yield %t : f32
    }""",
    "one_after_the_other": """
    %first = memref.load %a[%c0, %gx] : memref<?x?xf32>
    %p = scf.for %k = %c0 to %n step %c1 iter_args(%s = %first) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %t = arith.maximumf %s, %v : f32
      scf.yield %t : f32
    }
    %q = scf.for %k = %c0 to %n step %c1 iter_args(%s = %p) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %d = arith.subf %v, %p : f32
      %t = arith.addf %s, %d : f32
      scf.yield %t : f32
    }
    %r = arith.subf %q, %first : f32""",
    "strided": """
    %m = memref.dim %a, %c1 : memref<?x?xf32>
    %r = scf.for %i = %x to %m step %bx iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%c1, %i] : memref<?x?xf32>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }""",
    "strided_by_one": """
    %m = memref.dim %a, %c1 : memref<?x?xf32>
    %from = arith.addi %x, %c3 : index
    %r = scf.for %i = %from to %m step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%c1, %i] : memref<?x?xf32>
      %h = arith.mulf %s, %half : f32
      %t = arith.addf %h, %v : f32
      scf.yield %t : f32
    }""",
    "strided_by_bytes": """
    %m = memref.dim %a, %c1 : memref<?x?xf32>
    %byte = arith.index_cast %x : index to i8
    %moved = arith.addi %byte, %hop : i8
    %from = arith.index_cast %moved : i8 to index
    %to = arith.subi %m, %c128 : index
    %r = scf.for %i = %from to %to step %bx iter_args(%s = %half) -> f32 {
      %j = arith.addi %i, %c128 : index
      %v = memref.load %a[%c1, %j] : memref<?x?xf32>
      %h = arith.mulf %s, %half : f32
      %t = arith.addf %h, %v : f32
      scf.yield %t : f32
    }""",
    "uniform_in_strided": """
    %m = memref.dim %a, %c1 : memref<?x?xf32>
    %r = scf.for %i = %gx to %m step %bx iter_args(%s = %zero) -> f32 {
      %in = scf.for %k = %c0 to %n step %c1 iter_args(%p = %s) -> f32 {
        %v = memref.load %a[%k, %i] : memref<?x?xf32>
        %q = arith.addf %p, %v : f32
        scf.yield %q : f32
      }
      %h = arith.mulf %in, %half : f32
      scf.yield %h : f32
    }""",
    "divergent_inside": """
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %big = arith.cmpf ogt, %v, %half : f32
      %t = scf.if %big -> f32 {
        %u = arith.addf %s, %v : f32
        scf.yield %u : f32
      } else {
        scf.yield %s : f32
      }
      scf.yield %t : f32
    }""",
    "within_bounds": """
    memref.store %half, %out[%place] : memref<?xf32>
    %mx = arith.constant 90 : index
    %my = arith.constant 5 : index
    %inx = arith.cmpi ult, %gx, %mx : index
    %iny = arith.cmpi sle, %gy, %my : index
    %in = arith.andi %inx, %iny : i1
    %own = memref.load %a[%c0, %gx] : memref<?x?xf32>
    scf.if %in {
      %inner = scf.for %k = %c0 to %n step %c1 iter_args(%s = %own) -> f32 {
        %v = memref.load %a[%k, %gx] : memref<?x?xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      %twice = arith.addf %inner, %own : f32
      memref.store %twice, %out[%place] : memref<?xf32>
    }
    %r = memref.load %out[%place] : memref<?xf32>""",
    "within_bounds_that_overflow": """
    memref.store %half, %out[%place] : memref<?xf32>
    %far = arith.constant -20 : index
    %start = arith.addi %gx, %far : index
    %most = arith.constant 1000 : index
    %in = arith.cmpi ult, %start, %most : index
    scf.if %in {
      %inner = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %v = memref.load %a[%k, %start] : memref<?x?xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      memref.store %inner, %out[%place] : memref<?xf32>
    }
    %r = memref.load %out[%place] : memref<?xf32>""",
    "within_what_all_share": """
    memref.store %half, %out[%place] : memref<?xf32>
    %most = arith.constant 90 : index
    %in = arith.cmpi ult, %gx, %most : index
    scf.if %in {
      %odd = arith.addi %n, %c3 : index
      %some = arith.cmpi ne, %odd, %c3 : index
      scf.if %some {
        %inner = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
          %v = memref.load %a[%k, %gx] : memref<?x?xf32>
          %t = arith.addf %s, %v : f32
          scf.yield %t : f32
        }
        memref.store %inner, %out[%place] : memref<?xf32>
      }
    }
    %r = memref.load %out[%place] : memref<?xf32>""",
    "never": """
    %r = scf.for %k = %n to %c0 step %c1 iter_args(%s = %half) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }""",
    "on_both_sides_of_a_barrier": """
    %own = memref.load %a[%c0, %gx] : memref<?x?xf32>
    %p = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %m = arith.mulf %v, %own : f32
      %t = arith.addf %s, %m : f32
      scf.yield %t : f32
    }
    gpu.barrier
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %p) -> f32 {
      %v = memref.load %a[%k, %gx] : memref<?x?xf32>
      %m = arith.mulf %v, %own : f32
      %u = arith.addf %m, %p : f32
      %t = arith.addf %s, %u : f32
      scf.yield %t : f32
    }""",
    "around_a_barrier": """
    %r = scf.for %l = %c0 to %c3 step %c1 iter_args(%o = %half) -> f32 {
      %s = scf.for %k = %l to %n step %c1 iter_args(%s = %o) -> f32 {
        %v = memref.load %a[%k, %gx] : memref<?x?xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      memref.store %s, %shared[%lin] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %back = memref.load %shared[%mirror] : memref<1024xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %t = arith.subf %back, %s : f32
      scf.yield %t : f32
    }""",
}
MIRROR = """
    %true = arith.constant true
    %y = gpu.thread_id y
    %z = gpu.thread_id z
    %bz = gpu.block_dim z
    %zy = arith.muli %z, %by : index
    %zyy = arith.addi %zy, %y : index
    %zyx = arith.muli %zyy, %bx : index
    %lin = arith.addi %zyx, %x : index
    %i1 = arith.muli %bx, %by : index
    %items = arith.muli %i1, %bz : index
    %last = arith.subi %items, %c1 : index
    %mirror = arith.subi %last, %lin : index
    %gxs = gpu.grid_dim x
    %width = arith.muli %gxs, %bx : index
    %line = arith.muli %row, %width : index
    %place = arith.addi %line, %gx : index
"""
OUT = """
    memref.store %r, %out[%place] : memref<?xf32>
    gpu.return
"""
SHAPES = [(1,), (7,), (16,), (33,), (64,), (100,), (256,), (16, 4), (17, 5), (64, 3), (80, 6), (3, 3, 3)]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory):
    kernels = "".join(
        f"""
  gpu.func @{name}(%a: memref<?x?xf32>, %out: memref<?xf32>)
      workgroup(%shared : memref<1024xf32, {WG}>) kernel {{{HEAD}{MIRROR}{body}{OUT}  }}"""
        for name, body in BODIES.items()
    )
    out = compile_module(f"gpu.module @k {{{kernels}\n}}", tmp_path_factory.mktemp("exchange"), opt_level=1)
    return Device(build_runtime(tmp_path_factory.mktemp("runtime"))).load(out)


@pytest.mark.parametrize("name", BODIES)
def test_every_work_item_gets_what_it_would_alone(module, name: str) -> None:
    random = np.random.default_rng(5)
    for shape in SHAPES:
        grid = (2, 2, 1)[: len(shape)]
        items = int(np.prod(shape)) * int(np.prod(grid))
        for n in (0, 1, 5):
            a = random.random((8, 600), np.float32)[:n]  # kernels look at its first rows, come what may
            results = np.full((2, items), np.nan, np.float32)
            for fibers in (False, True):
                module.launch(name, grid, shape, a, results[int(fibers)], fibers=fibers)
            np.testing.assert_array_equal(results[0], results[1], err_msg=f"{shape} {n}")
            assert not np.isnan(results).any()


def test_the_sum_is_right(module) -> None:
    """Not only the same in every tier."""
    a = np.random.default_rng(5).random((9, 128), np.float32)
    out = np.zeros(128, np.float32)
    module.launch("sum", 2, 64, a, out)
    expected = np.zeros(128, np.float32)
    for row in a:
        expected += row
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("place", ["%k, %p", "%p, %k"])
def test_values_of_many_equal_terms_take_no_time(tmp_path: Path, place: str) -> None:
    """Forty sums of a value and itself, or conditions of two that share one, have 2⁴⁰ ways through them."""
    sums = "".join(f"%d{n + 1} = arith.addi %d{n}, %d{n} : index\n" for n in range(40))
    checks = "".join(
        f"""%b{n} = arith.cmpi ult, %i, %n{n} : index
            %l{n} = arith.andi %c{n}, %b{n} : i1
            %r{n} = arith.andi %l{n}, %c{n} : i1
            %n{n + 1} = arith.addi %n{n}, %one : index
            %c{n + 1} = arith.andi %r{n}, %l{n} : i1\n"""
        for n in range(40)
    )
    text = f"""gpu.module @k {{ gpu.func @f(%a: memref<?x?xf32>, %out: memref<?xf32>, %n0: index) kernel {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %none = arith.constant 0.0 : f32
      %d0 = gpu.thread_id x
      %i = gpu.global_id x
      %c0 = arith.cmpi ult, %i, %n0 : index
      {sums}{checks}
      %p = arith.addi %d40, %i : index
      scf.if %c40 {{
        %sum = scf.for %k = %zero to %n0 step %one iter_args(%s = %none) -> f32 {{
          %v = memref.load %a[{place}] : memref<?x?xf32>
          %w = memref.load %a[%k, %i] : memref<?x?xf32>
          %x = arith.addf %v, %w : f32
          %t = arith.addf %s, %x : f32
          scf.yield %t : f32
        }}
        memref.store %sum, %out[%i] : memref<?xf32>
      }}
      gpu.return
    }} }}"""
    assert (compile_module(text, tmp_path, opt_level=0) / "object").exists()
