"""Programs in the style of MLIR's GPU integration tests: `main` in MLIR, inline launches, print functions.

The operations are those of mlir/test/Integration/GPU/CUDA; expected values are computed here.
docs/upstream-programs.md says which of the originals build unchanged.
"""

from __future__ import annotations

import functools
import operator
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.command import Outcome, gpubuild, run_on_cpu

ROWS = [[12, 10, 14, 9, 8, 13, 11], [96, 33, 6, 7, 70, 99, 5]]
WIDTH = len(ROWS[0])
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "maxsi": max,
    "minsi": min,
    "add": operator.add,
    "mul": lambda a, b: (a * b + 2**31) % 2**32 - 2**31,  # the second row's product has more than 32 bits
}


def all_reduce_program() -> str:
    """Every row is reduced by every operation, and by a region that adds and subtracts one."""
    stores = "\n".join(
        f"    memref.store %v{value}, %data[%c{row}, %c{column}] : memref<2x{WIDTH}xi32>"
        for row, values in enumerate(ROWS)
        for column, value in enumerate(values)
    )
    values = "\n".join(f"    %v{v} = arith.constant {v} : i32" for v in sorted({*ROWS[0], *ROWS[1]}))
    reductions = "\n".join(
        f"""      %r{number} = gpu.all_reduce {name} %val uniform {{}} : (i32) -> (i32)
      memref.store %r{number}, %out[%bx, %c{number}] : memref<2x8xi32>"""
        for number, name in enumerate(OPERATIONS)
    )
    indices = "\n".join(f"    %c{n} = arith.constant {n} : index" for n in range(9))
    return f"""
module attributes {{gpu.container_module}} {{
  func.func @main() {{
{indices}
{values}
    %data = memref.alloc() : memref<2x{WIDTH}xi32>
    %out = memref.alloc() : memref<2x8xi32>
    %lanes = memref.alloc() : memref<13xf32>
{stores}
    %data_any = memref.cast %data : memref<2x{WIDTH}xi32> to memref<*xi32>
    %out_any = memref.cast %out : memref<2x8xi32> to memref<*xi32>
    %lanes_any = memref.cast %lanes : memref<13xf32> to memref<*xf32>
    gpu.host_register %data_any : memref<*xi32>
    gpu.host_register %out_any : memref<*xi32>
    gpu.host_register %lanes_any : memref<*xf32>
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c2, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c{WIDTH}, %sy = %c1, %sz = %c1) {{
      %val = memref.load %data[%bx, %tx] : memref<2x{WIDTH}xi32>
{reductions}
      %r7 = gpu.all_reduce %val uniform {{
      ^bb(%a: i32, %b: i32):
        %m = arith.minui %a, %b : i32
        gpu.yield %m : i32
      }} : (i32) -> (i32)
      memref.store %r7, %out[%bx, %c7] : memref<2x8xi32>
      gpu.terminator
    }}
    %all = arith.constant 13 : index
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %all, %sy = %c1, %sz = %c1) {{
      %i = arith.index_cast %tx : index to i32
      %f = arith.sitofp %i : i32 to f32
      %two = arith.constant 2 : i32
      %w = arith.index_cast %sx : index to i32
      %got, %valid = gpu.shuffle xor %f, %two, %w : f32
      %none = arith.constant -1.0 : f32
      cf.cond_br %valid, ^store(%got : f32), ^store(%none : f32)
    ^store(%v: f32):
      memref.store %v, %lanes[%tx] : memref<13xf32>
      gpu.terminator
    }}
    call @printMemrefI32(%out_any) : (memref<*xi32>) -> ()
    call @printMemrefF32(%lanes_any) : (memref<*xf32>) -> ()
    %zero = arith.constant 0.0 : f32
    %some = vector.transfer_read %lanes[%c4], %zero : memref<13xf32>, vector<3xf32>
    vector.print %some : vector<3xf32>
    %one = memref.load %out[%c0, %c5] : memref<2x8xi32>
    vector.print %one : i32
    return
  }}
  func.func private @printMemrefI32(memref<*xi32>)
  func.func private @printMemrefF32(memref<*xf32>)
}}
"""


CLUSTER = """
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @tell() kernel {
      %x = gpu.cluster_id x
      %y = gpu.cluster_id y
      %dx = gpu.cluster_dim_blocks x
      %b = gpu.block_id x
      %t = gpu.thread_id x
      %c5 = arith.constant 5 : index
      %last = arith.cmpi eq, %b, %c5 : index
      scf.if %last {
        %i = index.casts %x : index to i32
        %j = index.casts %y : index to i32
        %n = index.casts %dx : index to i32
        %half = arith.constant 0.5 : f32
        gpu.printf "cluster %d %d of %d, work-item %lld, %f\\0A", %i, %j, %n, %t, %half
          : i32, i32, i32, index, f32
      }
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c6 = arith.constant 6 : index
    gpu.launch_func @k::@tell clusters in (%c2, %c1, %c1) blocks in (%c6, %c1, %c1) threads in (%c2, %c1, %c1)
    return
  }
}
"""
ASSERTS = """
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @check(%good: i1, %bad: i1) kernel {
      %t = gpu.thread_id x
      cf.assert %good, "holds"
      gpu.printf "passed %lld\\0A", %t : index
      cf.assert %bad, "does not hold"
      gpu.printf "never\\0A"
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %false = arith.constant false
    %true = arith.constant true
    gpu.launch_func @k::@check blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%true : i1, %false : i1)
    return
  }
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("upstream")
    (folder / "reduce.mlir").write_text(all_reduce_program())
    (folder / "cluster.mlir").write_text(CLUSTER)
    (folder / "asserts.mlir").write_text(ASSERTS)
    (folder / "targets.yaml").write_text(
        "version: 1\ntargets: {sm_80: {}, sm_90a: {}, cpu: {}}\nprograms:\n"
        "  reduce: {sources: [reduce.mlir], targets: [sm_80, cpu]}\n"
        "  cluster: {sources: [cluster.mlir], targets: [sm_90a, cpu]}\n"
        "  asserts: {sources: [asserts.mlir], targets: [cpu]}\n"
    )
    outcome = gpubuild("build", cwd=folder, env=shared_cache)
    assert outcome.code == 0, outcome.err + outcome.out
    return folder / "build"


def run(built: Path, name: str) -> Outcome:
    return run_on_cpu(built / name / name)


def numbers(line: str) -> list[float]:
    return [float(part) for part in line.strip(" ,[]()").split(",") if part.strip()]


def test_all_reduce_shuffle_and_printing(built: Path) -> None:
    ran = run(built, "reduce")
    assert ran.code == 0, ran.err
    rows = [numbers(line) for line in ran.out.splitlines() if "base@" not in line]
    reduced: list[list[int]] = [
        [*(functools.reduce(op, row) for op in OPERATIONS.values()), min(row)] for row in ROWS
    ]
    lanes = [i ^ 2 if i ^ 2 < 13 else -1 for i in range(13)]
    assert rows == [*reduced, lanes, lanes[4:7], [sum(ROWS[0])]]


def test_clusters_and_printf(built: Path) -> None:
    ran = run(built, "cluster")
    assert (ran.code, sorted(ran.out.splitlines())) == (
        0,
        [f"cluster 2 0 of 2, work-item {i}, 0.500000" for i in range(2)],
    )


def test_assert_ends_the_program(built: Path) -> None:
    ran = run(built, "asserts")
    assert (ran.code, ran.out) == (1, "passed 0\n")
    assert re.search(r"asserts\.mlir:\d+:\d+: assertion failed: does not hold, in workgroup \(", ran.err)
    for name in ("k", "check", "cpu"):
        assert name in ran.err


def test_without_an_image_for_the_device_nothing_runs(built: Path) -> None:
    environment = {**os.environ, "GPUBUILD_DEVICE": "cuda:7"}
    done = subprocess.run(
        [built / "asserts/asserts"], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "cuda" in done.stderr
