"""One product of matrices in the forms that people and front ends write it in, on one CPU thread.

python bench/cpu_loop_forms.py [--chip CHIP] [--rounds N]

All forms add the same products in the same order. They run in turns in one process, with NumPy, whose order
is its own; the least time of all rounds counts.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ |= {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
import numpy as np
from timing import machine

import gpubuild

SIZE = 512
PRIVATE = "#gpu.address_space<private>"
MODULE = """module attributes {{gpu.container_module}} {{
  func.func @product(%a: {kind}, %b: {kind}, %c: {kind}) attributes {{llvm.emit_c_interface}} {{
    %n = arith.constant {size} : index
    %groups_x = arith.constant {groups[0]} : index
    %groups_y = arith.constant {groups[1]} : index
    %items_x = arith.constant {items[0]} : index
    %items_y = arith.constant {items[1]} : index
    %one = arith.constant 1 : index
    gpu.launch_func @k::@product blocks in (%groups_x, %groups_y, %one) threads in (%items_x, %items_y, %one)
      args(%a : {kind}, %b : {kind}, %c : {kind}, %n : index)
    return
  }}
  gpu.module @k {{
    gpu.func @product(%a: {kind}, %b: {kind}, %c: {kind}, %n: index) {workgroup}kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %c16 = arith.constant 16 : index
      %zero = arith.constant 0.0 : f32
      %x = gpu.global_id x
      %y = gpu.global_id y
      %groups_x = gpu.grid_dim x
      %groups_y = gpu.grid_dim y
      {body}
      gpu.return
    }}
  }}
}}
"""
TABLE, ROW = "memref<?x?xf32>", "memref<?xf32>"
LOAD = """
      %p = memref.load %a[%y, %k] : memref<?x?xf32>
      %q = memref.load %b[%k, %x] : memref<?x?xf32>
      %r = arith.mulf %p, %q : f32"""
ADD = LOAD + "\n      %t = arith.addf %s, %r : f32"
PLAIN = f"""%sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {{{ADD}
        scf.yield %t : f32
      }}
      memref.store %sum, %c[%y, %x] : memref<?x?xf32>"""
NARROW = """%x32 = arith.index_cast %x : index to i32
      %y32 = arith.index_cast %y : index to i32
      %n32 = arith.index_cast %n : index to i32
      %zero32 = arith.constant 0 : i32
      %one32 = arith.constant 1 : i32
      %row = arith.muli %y32, %n32 : i32
      %sum = scf.for %k = %zero32 to %n32 step %one32 iter_args(%s = %zero) -> f32 : i32 {
        %i = arith.addi %row, %k : i32
        %before = arith.muli %k, %n32 : i32
        %j = arith.addi %before, %x32 : i32
        %at_a = arith.index_cast %i : i32 to index
        %at_b = arith.index_cast %j : i32 to index
        %p = memref.load %a[%at_a] : memref<?xf32>
        %q = memref.load %b[%at_b] : memref<?xf32>
        %r = arith.mulf %p, %q : f32
        %t = arith.addf %s, %r : f32
        scf.yield %t : f32
      }
      %l = arith.addi %row, %x32 : i32
      %at = arith.index_cast %l : i32 to index
      memref.store %sum, %c[%at] : memref<?xf32>"""
WHILE = f"""%last, %sum = scf.while (%k = %c0, %s = %zero) : (index, f32) -> (index, f32) {{
        %more = arith.cmpi slt, %k, %n : index
        scf.condition(%more) %k, %s : index, f32
      }} do {{
      ^bb0(%k: index, %s: f32):{ADD}
        %next = arith.addi %k, %c1 : index
        scf.yield %next, %t : index, f32
      }}
      memref.store %sum, %c[%y, %x] : memref<?x?xf32>"""
BRANCHES = f"""%in_x = arith.cmpi slt, %x, %n : index
      %in_y = arith.cmpi slt, %y, %n : index
      %in = arith.andi %in_x, %in_y : i1
      cf.cond_br %in, ^head(%c0, %zero : index, f32), ^end
    ^head(%k: index, %s: f32):
      %more = arith.cmpi slt, %k, %n : index
      cf.cond_br %more, ^body, ^store
    ^body:{ADD}
      %next = arith.addi %k, %c1 : index
      cf.br ^head(%next, %t : index, f32)
    ^store:
      memref.store %s, %c[%y, %x] : memref<?x?xf32>
      cf.br ^end
    ^end:"""
SUM = f"memref<f32, {PRIVATE}>"
IN_MEMORY = f"""%own = memref.alloca() : {SUM}
      memref.store %zero, %own[] : {SUM}
      scf.for %k = %c0 to %n step %c1 {{
        %s = memref.load %own[] : {SUM}{ADD}
        memref.store %t, %own[] : {SUM}
      }}
      %sum = memref.load %own[] : {SUM}
      memref.store %sum, %c[%y, %x] : memref<?x?xf32>"""
SUMS = f"memref<4xf32, {PRIVATE}>"
IN_ARRAY = f"""%first = arith.muli %y, %c4 : index
      %own = memref.alloca() : {SUMS}
      scf.for %i = %c0 to %c4 step %c1 {{
        memref.store %zero, %own[%i] : {SUMS}
      }}
      scf.for %k = %c0 to %n step %c1 {{
        scf.for %i = %c0 to %c4 step %c1 {{
          %y1 = arith.addi %first, %i : index
          %s = memref.load %own[%i] : {SUMS}{ADD.replace("%y,", "%y1,")}
          memref.store %t, %own[%i] : {SUMS}
        }}
      }}
      scf.for %i = %c0 to %c4 step %c1 {{
        %y1 = arith.addi %first, %i : index
        %s = memref.load %own[%i] : {SUMS}
        memref.store %s, %c[%y1, %x] : memref<?x?xf32>
      }}"""
ROWS = f"""%first = arith.muli %y, %c4 : index
      scf.for %i = %c0 to %c4 step %c1 {{
        %y1 = arith.addi %first, %i : index
        {PLAIN.replace("%y,", "%y1,")}
      }}"""
GRID = f"""%all_x = arith.muli %groups_x, %c16 : index
      %all_y = arith.muli %groups_y, %c16 : index
      scf.for %y1 = %y to %n step %all_y {{
        scf.for %x1 = %x to %n step %all_x {{
          {PLAIN.replace("%y,", "%y1,").replace("%x]", "%x1]")}
        }}
      }}"""
TILE = "memref<16x16xf32, #gpu.address_space<workgroup>>"
TILES = f"workgroup(%ta: {TILE}, %tb: {TILE}) "
TILED = f"""%tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %sum = scf.for %at = %c0 to %n step %c16 iter_args(%before = %zero) -> f32 {{
        %kx = arith.addi %at, %tx : index
        %ky = arith.addi %at, %ty : index
        %ea = memref.load %a[%y, %kx] : memref<?x?xf32>
        memref.store %ea, %ta[%ty, %tx] : {TILE}
        %eb = memref.load %b[%ky, %x] : memref<?x?xf32>
        memref.store %eb, %tb[%ty, %tx] : {TILE}
        gpu.barrier
        %part = scf.for %k = %c0 to %c16 step %c1 iter_args(%s = %before) -> f32 {{
          %p = memref.load %ta[%ty, %k] : {TILE}
          %q = memref.load %tb[%k, %tx] : {TILE}
          %r = arith.mulf %p, %q : f32
          %t = arith.addf %s, %r : f32
          scf.yield %t : f32
        }}
        gpu.barrier
        scf.yield %part : f32
      }}
      memref.store %sum, %c[%y, %x] : memref<?x?xf32>"""
DIVIDED = f"""%row = arith.divui %x, %n : index
      %column = arith.remui %x, %n : index
      {PLAIN.replace("%y,", "%row,").replace("%x]", "%column]")}"""
SQUARE, LINE = (16, 16), (256, 1)
# Type of the matrices, workgroup, its columns and rows of elements, body, workgroup memory.
FORMS = {
    "scf.for over indices": (TABLE, SQUARE, (16, 16), PLAIN, ""),
    "indices of 32 bits in one dimension": (ROW, SQUARE, (16, 16), NARROW, ""),
    "scf.while": (TABLE, SQUARE, (16, 16), WHILE, ""),
    "branches, with an early return": (TABLE, SQUARE, (16, 16), BRANCHES, ""),
    "sum in private memory": (TABLE, SQUARE, (16, 16), IN_MEMORY, ""),
    "four sums in a private array": (TABLE, SQUARE, (16, 64), IN_ARRAY, ""),
    "four rows in a loop around": (TABLE, SQUARE, (16, 64), ROWS, ""),
    "in two loops in steps of the grid": (TABLE, SQUARE, (16, 64), GRID, ""),
    "tiles in workgroup memory": (TABLE, SQUARE, (16, 16), TILED, TILES),
    "row and column by division": (TABLE, LINE, (256, 1), DIVIDED, ""),
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default="x86-64-v2")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    numbers = np.random.default_rng(7)
    a, b = (numbers.random((SIZE, SIZE), np.float32) for _ in range(2))
    modules = {}
    for name, (kind, items, (columns, rows), body, workgroup) in FORMS.items():
        groups = (SIZE * SIZE // columns, 1) if items == LINE else (SIZE // columns, SIZE // rows)
        text = MODULE.format(kind=kind, size=SIZE, groups=groups, items=items, body=body, workgroup=workgroup)
        modules[name] = gpubuild.load(text=text, targets={"cpu": {"kind": "cpu", "chip": options.chip}})
    least = dict.fromkeys([*modules, "NumPy"], float("inf"))
    results = {name: np.zeros_like(a) for name in least}
    for _ in range(options.rounds):
        for name, result in results.items():
            arrays = [
                array.ravel() if FORMS.get(name, (TABLE,))[0] == ROW else array for array in (a, b, result)
            ]
            start = time.perf_counter()
            if name in modules:
                modules[name].product(*arrays)
            else:
                np.matmul(*arrays[:2], out=result)
            least[name] = min(least[name], time.perf_counter() - start)
    first, *others = modules
    np.testing.assert_allclose(results[first], results["NumPy"], rtol=1e-4)
    for name in others:
        np.testing.assert_array_equal(results[name], results[first], err_msg=name)
    print(f"{machine()} Product of {SIZE} x {SIZE} f32, {options.chip}.\n")
    print("| form | ms | / first | / NumPy |\n|---|---:|---:|---:|")
    for name, seconds in least.items():
        ratios = seconds / least[first], seconds / least["NumPy"]
        print(f"| {name} | {seconds * 1e3:.1f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
