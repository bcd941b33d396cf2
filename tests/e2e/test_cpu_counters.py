"""Loops that count in integers of any width, where work-items run them together."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module
from kernels.cpu import WG

ITEMS, ROWS, COLUMNS = 100, 200, 256


def _sum(kind: str, unsigned: str) -> str:
    """Sums of columns from ``first`` to ``last``, and of what the next work-item has, past a barrier."""
    widen = "index_castui" if unsigned else "index_cast"
    name, is_wide = f"{unsigned}{kind}", kind in ("i64", "i100")
    low = f"arith.trunci %k : {kind} to i32" if is_wide else f"arith.addi %k, %zero : {kind}"
    as_float = f"{'uitofp' if unsigned else 'sitofp'} %low : {'i32' if is_wide else kind} to f32"
    return f"""
  gpu.func @column_{name}(%A: memref<?x?xf32>, %C: memref<?xf32>, %first: {kind}, %last: {kind}) kernel {{
    %x = gpu.global_id x
    %one = arith.constant 1 : {kind}
    %zero = arith.constant 0 : {kind}
    %none = arith.constant 0.0 : f32
    %sum = scf.for {unsigned} %k = %first to %last step %one iter_args(%s = %none) -> f32 : {kind} {{
      %row = arith.{widen} %k : {kind} to index
      %v = memref.load %A[%row, %x] : memref<?x?xf32>
      %low = {low}
      %number = arith.{as_float}
      %t = arith.addf %s, %v : f32
      %u = arith.addf %t, %number : f32
      scf.yield %u : f32
    }}
    memref.store %sum, %C[%x] : memref<?xf32>
    gpu.return
  }}
  gpu.func @next_{name}(%A: memref<?x?xf32>, %C: memref<?xf32>, %first: {kind}, %last: {kind})
      workgroup(%mail: memref<{ITEMS}xf32, {WG}>) kernel {{
    %x = gpu.thread_id x
    %n = gpu.block_dim x
    %c1 = arith.constant 1 : index
    %three = arith.constant 3 : {kind}
    %none = arith.constant 0.0 : f32
    %after = arith.addi %x, %c1 : index
    %from = arith.remui %after, %n : index
    %sum = scf.for {unsigned} %k = %first to %last step %three iter_args(%s = %none) -> f32 : {kind} {{
      %row = arith.{widen} %k : {kind} to index
      %v = memref.load %A[%row, %x] : memref<?x?xf32>
      memref.store %v, %mail[%x] : memref<{ITEMS}xf32, {WG}>
      gpu.barrier
      %w = memref.load %mail[%from] : memref<{ITEMS}xf32, {WG}>
      gpu.barrier
      %t = arith.addf %s, %w : f32
      scf.yield %t : f32
    }}
    memref.store %sum, %C[%x] : memref<?xf32>
    gpu.return
  }}
  gpu.func @own_{name}(%A: memref<?x?xf32>, %C: memref<?xf32>, %first: {kind}, %last: {kind}) kernel {{
    %x = gpu.global_id x
    %c0 = arith.constant 0 : index
    %number = arith.index_cast %x : index to {kind}
    %mine = arith.addi %first, %number : {kind}
    %step = arith.constant 13 : {kind}
    %none = arith.constant 0.0 : f32
    %sum = scf.for {unsigned} %k = %mine to %last step %step iter_args(%s = %none) -> f32 : {kind} {{
      %column = arith.{widen} %k : {kind} to index
      %v = memref.load %A[%c0, %column] : memref<?x?xf32>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }}
    memref.store %sum, %C[%x] : memref<?xf32>
    gpu.return
  }}"""


KINDS = {"i8": 1 << 7, "i32": 1 << 31, "i64": 1 << 63, "unsigned i8": 1 << 8, "i100": 1 << 63}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("counters")
    functions = "".join(_sum(*reversed(kind.rpartition(" ")[::2])) for kind in KINDS)
    out = compile_module(f"gpu.module @k {{{functions}\n}}", folder / "k", opt_level=0)
    return Device(build_runtime(folder)).load(out)


@pytest.mark.parametrize("kind", KINDS)
def test_every_iteration_runs_once(module: Module, kind: str) -> None:
    name = kind.replace(" ", "")
    a = np.random.default_rng(1).integers(-9, 9, (ROWS, COLUMNS)).astype(np.float32)
    last = min(KINDS[kind], ROWS) - 1
    number = np.dtype({"i8": np.int8, "i32": np.int32}.get(kind.rsplit(maxsplit=1)[-1], np.int64))
    given = np.array([3, last]).astype(number)  # of 8 unsigned bits, 199 is what -57 looks like
    if kind == "i100":
        given = np.array([(3, 0), (last, 0)], np.int64).view("V16").ravel()
    where = np.arange(3, last)
    expected = {
        "column": a[where, :ITEMS].sum(0) + where.sum(),
        "next": np.roll(a[where[::3], :ITEMS].sum(0), -1),
    }
    starts = (3 + np.arange(ITEMS)) % 256
    starts = np.where((kind == "i8") & (starts > 127), starts - 256, starts)
    for run, wanted in expected.items():
        found = np.zeros(ITEMS, np.float32)
        grid, block = (2, ITEMS // 2) if run == "column" else (1, ITEMS)
        module.launch(f"{run}_{name}", grid, block, a, found, *given)
        assert np.array_equal(found, wanted), (run, kind)
    found = np.zeros(ITEMS, np.float32)
    module.launch(f"own_{name}", 1, ITEMS, a, found, *given)
    assert np.array_equal(found, [a[0, first:last:13].sum() for first in starts])


def test_counters_that_no_index_holds_wait_on_fibers(module: Module) -> None:
    assert module.tier("next_i32") == "fission"
    assert module.tier("next_i100") == "fibers"
