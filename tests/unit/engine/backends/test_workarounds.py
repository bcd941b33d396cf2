"""Calls that lanes make together stay where all of them come by."""

import pytest
from unit.engine.device_steps import compile_module

TEXT = """gpu.module @k {
  func.func @next_lane(%v: i32) -> i32 attributes {passthrough = ["noinline"]} {
    %one = arith.constant 1 : i32
    %width = arith.constant 32 : i32
    %r, %ok = gpu.shuffle xor %v, %one, %width : i32
    return %r : i32
  }
  func.func @twice(%v: i32) -> i32 attributes {passthrough = ["noinline"]} {
    %r = arith.addi %v, %v : i32
    return %r : i32
  }
  gpu.func @f(%out: memref<?xi32>) kernel {
    %t = gpu.thread_id x
    %v = arith.index_cast %t : index to i32
    %five = arith.constant 5 : index
    %p = arith.cmpi ult, %t, %five : index
    %r = func.call @next_lane(%v) : (i32) -> i32
    %s = func.call @twice(%r) : (i32) -> i32
    scf.if %p {
      memref.store %s, %out[%t] : memref<?xi32>
    }
    gpu.return
  }
}
"""


@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.parametrize("chip", ["sm_90", "gfx90a", "gfx1100"])
def test_a_call_of_an_exchange_is_not_moved_into_a_branch(chip, level):
    """LLVM did so for AMD, where exchanges have no effect but their result: other lanes gave nothing."""
    lines = compile_module(TEXT, chip, opt_level=level).llvm.splitlines()
    kernel = lines[next(n for n, line in enumerate(lines) if "_kernel void @f(" in line) :]
    call = next(n for n, line in enumerate(kernel) if "@next_lane(" in line)
    branch = next(n for n, line in enumerate(kernel) if " br i1 " in line)
    assert call < branch
    # What exchanges nothing may move, and does: the mark costs nothing where it is not needed.
    assert branch < next(n for n, line in enumerate(kernel) if "@twice(" in line)
