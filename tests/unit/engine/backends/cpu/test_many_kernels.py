"""Many kernels in one module: lowering does the same work for each, however many there are."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from gpubuild.engine.backends.cpu.compile import lower_text
from gpubuild.model.step import CompileParams
from gpubuild.targets.target import Kind

PARAMS = CompileParams(
    module="many", kind=Kind.CPU, triple="x86_64-unknown-linux-gnu", chip="x86-64-v3", target="cpu"
)
BOUNDED = """\
    gpu.func @kNUMBER(%a: f32, %x: memref<?xf32>, %n: index) kernel {
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %old = memref.load %x[%i] : memref<?xf32>
        %new = arith.mulf %a, %old : f32
        memref.store %new, %x[%i] : memref<?xf32>
      }
      gpu.return
    }
"""
HELPER = """\
    func.func @wait(%x: memref<?xf32>, %i: index) {
      %v = memref.load %x[%i] : memref<?xf32>
      gpu.barrier
      memref.store %v, %x[%i] : memref<?xf32>
      return
    }
"""
WAITING = """\
    gpu.func @kNUMBER(%x: memref<?xf32>)
        workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
      %i = gpu.thread_id x
      %v = memref.load %x[%i] : memref<?xf32>
      memref.store %v, %w[%i] : memref<64xf32, #gpu.address_space<workgroup>>
      gpu.barrier
      %c63 = arith.constant 63 : index
      %other = arith.subi %c63, %i : index
      %u = memref.load %w[%other] : memref<64xf32, #gpu.address_space<workgroup>>
      %s = math.sin %u : f32
      memref.store %s, %x[%i] : memref<?xf32>
      func.call @wait(%x, %i) : (memref<?xf32>, index) -> ()
      gpu.return
    }
"""


def calls_to_lower(kernel: str, count: int, others: str = "") -> int:
    """How many calls of Python functions it takes: a measure of work that no other load disturbs."""
    kernels = "".join(kernel.replace("NUMBER", str(100 + n)) for n in range(count))
    text = f"module {{\n  gpu.module @many {{\n{others}{kernels}  }}\n}}\n"
    calls = 0

    def count_call(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        lower_text(text, PARAMS)
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(("kernel", "others"), [(BOUNDED, ""), (WAITING, HELPER)], ids=["bounded", "waiting"])
def test_each_kernel_of_a_large_module_costs_the_same(kernel: str, others: str) -> None:
    calls_to_lower(kernel, 1, others)  # what is done once in a process
    few, more, most = (calls_to_lower(kernel, count, others) for count in (20, 40, 60))
    assert few > 20 * 1000
    # A walk over the module for each kernel would cost the last twenty 800 calls more than those before.
    assert abs((most - more) - (more - few)) < 200
