"""Reductions over a workgroup that follow each other: each waits until all have read the one before."""

from __future__ import annotations

import numpy as np
import pytest
from simulators.device_ir.compiling import load
from unit.engine.device_steps import in_child

ITEMS, TURNS = 192, 5  # six subgroups, or three
LOOP = """gpu.module @k { gpu.func @f(%a: memref<?xi32>, %out: memref<?xi32>, %n: index) kernel {
  %t = gpu.thread_id x
  %ti = arith.index_cast %t : index to i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = memref.load %a[%t] : memref<?xi32>
  %s = scf.for %k = %c0 to %n step %c1 iter_args(%v = %x) -> (i32) {
    %r = gpu.all_reduce add %v uniform {} : (i32) -> (i32)
    %y = arith.addi %r, %ti : i32
    %z = arith.xori %y, %v : i32
    scf.yield %z : i32
  }
  memref.store %s, %out[%t] : memref<?xi32>
  gpu.return
} }"""


def expected(values: np.ndarray) -> np.ndarray:
    for _ in range(TURNS):
        values = (values.sum(dtype=np.int32) + np.arange(ITEMS, dtype=np.int32)) ^ values
    return values


def left_by(chip: str) -> list[np.ndarray]:
    """With the first and with the last subgroup first, each as far as it can go."""
    module = load(chip, LOOP, opt_level=1)
    found = []
    for backwards in (False, True):
        out = np.zeros(ITEMS, np.int32)
        a = np.arange(ITEMS, dtype=np.int32) * 7
        module.launch("f", 1, ITEMS, a, out, np.int64(TURNS), backwards=backwards)
        found.append(out)
    return found


@pytest.mark.parametrize("chip", ["sm_60", "sm_90", "gfx90a", "gfx1100"])
def test_reductions_in_a_loop(chip: str) -> None:
    want = expected(np.arange(ITEMS, dtype=np.int32) * 7)
    for found in in_child(left_by, chip):
        np.testing.assert_array_equal(found, want)
