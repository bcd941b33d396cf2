"""Parameters of kernels and functions, in PTX: what is declared, what is read, and where."""

from __future__ import annotations

import numpy as np
import pytest
from simulators.device_ir.runner import DeviceModule
from simulators.ptx.source import PtxError
from simulators.ptx.translate import device_ir
from unit.engine.device_steps import compile_module, in_child

from gpubuild.errors import StepError

# Elements that are not of whole bytes lie bit by bit, those of rows apart; the function returns two values.
KERNEL = """gpu.module @k {
  func.func @twice(%m: vector<4xi1>, %n: vector<3xi24>) -> (vector<8xi1>, vector<3xi24>) {
    %r = vector.shuffle %m, %m [3, 2, 1, 0, 4, 5, 6, 7] : vector<4xi1>, vector<4xi1>
    %s = arith.addi %n, %n : vector<3xi24>
    return %r, %s : vector<8xi1>, vector<3xi24>
  }
  gpu.func @f(%m: vector<4xi1>, %n: vector<3xi24>, %q: vector<2x3xi1>, %i4: vector<4xi4>, %x: f32,
              %y: vector<3xf16>, %z: vector<9xi1>, %out: memref<64xi32>) kernel {
    %r, %s = func.call @twice(%m, %n) : (vector<4xi1>, vector<3xi24>) -> (vector<8xi1>, vector<3xi24>)
    %a = arith.extui %r : vector<8xi1> to vector<8xi32>
    %b = arith.extsi %s : vector<3xi24> to vector<3xi32>
    %c = vector.shape_cast %q : vector<2x3xi1> to vector<6xi1>
    %d = arith.extui %c : vector<6xi1> to vector<6xi32>
    %e = arith.extui %i4 : vector<4xi4> to vector<4xi32>
    %f = arith.fptosi %x : f32 to i32
    %g = arith.fptosi %y : vector<3xf16> to vector<3xi32>
    %h = arith.extui %z : vector<9xi1> to vector<9xi32>
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %c24 = arith.constant 24 : index
    %c32 = arith.constant 32 : index
    %c40 = arith.constant 40 : index
    %c48 = arith.constant 48 : index
    vector.store %a, %out[%c0] : memref<64xi32>, vector<8xi32>
    vector.store %b, %out[%c8] : memref<64xi32>, vector<3xi32>
    vector.store %d, %out[%c16] : memref<64xi32>, vector<6xi32>
    vector.store %e, %out[%c24] : memref<64xi32>, vector<4xi32>
    memref.store %f, %out[%c32] : memref<64xi32>
    vector.store %g, %out[%c40] : memref<64xi32>, vector<3xi32>
    vector.store %h, %out[%c48] : memref<64xi32>, vector<9xi32>
    gpu.return
  }
}
"""
VALUES = (
    np.uint8(0b0101),
    np.void((3 | 0xFFFFFF << 24 | 5 << 48).to_bytes(16, "little")),
    np.void(bytes([0b011, 0b100])),
    np.uint16(0x7AF1),
    np.float32(-7),
    np.void(np.array([1, -2, 3, 0], np.float16).tobytes()),
    np.uint16(0b1_0110_0011),
)  # fmt: skip


def result(ptx: str) -> list[int]:
    module = DeviceModule.load(device_ir(ptx, strict=True), "sm_60")
    out = np.zeros(64, np.int32)
    module.launch("f", 1, 1, *VALUES, out)
    return out.tolist()


@pytest.mark.parametrize("level", [0, 3])
def test_vectors_of_packed_elements(level):
    ptx = compile_module(KERNEL, "sm_60", opt_level=level).asm
    assert "call.uni" not in ptx
    got = in_child(result, ptx)
    assert got[:8] == [0, 1, 0, 1, 1, 0, 1, 0]
    assert got[8:11] == [6, -2, 10]
    assert got[16:22] == [1, 1, 0, 0, 0, 1]
    assert got[24:28] == [1, 15, 10, 7]
    assert got[32] == -7 and got[40:43] == [1, -2, 3]
    assert got[48:57] == [1, 1, 0, 0, 0, 1, 1, 0, 1]


REFUSED = {
    "by address": (
        """gpu.module @k {
  func.func @first(%p: i1) -> i1 {
    return %p : i1
  }
  func.func @second(%p: i1) -> i1 {
    %no = arith.constant false
    return %no : i1
  }
  gpu.func @f(%x: i1, %out: memref<1xi1>) kernel {
    %c0 = arith.constant 0 : index
    %one = func.constant @first : (i1) -> i1
    %two = func.constant @second : (i1) -> i1
    %g = arith.select %x, %one, %two : (i1) -> i1
    %r = func.call_indirect %g(%x) : (i1) -> i1
    memref.store %r, %out[%c0] : memref<1xi1>
    gpu.return
  }
}
""",
        "i1 cannot be passed to or returned by a function that is called by address on NVIDIA GPUs",
    ),
    "recursive": (
        """gpu.module @k {
  func.func @turn(%v: vector<3xi1>, %n: i32) -> vector<3xi1> {
    %c1 = arith.constant 1 : i32
    %m = arith.divsi %n, %c1 : i32
    %more = arith.cmpi sgt, %m, %c1 : i32
    %r = scf.if %more -> vector<3xi1> {
      %k = arith.subi %n, %c1 : i32
      %one = func.call @turn(%v, %k) : (vector<3xi1>, i32) -> vector<3xi1>
      %two = func.call @turn(%one, %k) : (vector<3xi1>, i32) -> vector<3xi1>
      scf.yield %two : vector<3xi1>
    } else {
      scf.yield %v : vector<3xi1>
    }
    return %r : vector<3xi1>
  }
  gpu.func @f(%v: vector<3xi1>, %n: i32, %out: memref<3xi1>) kernel {
    %c0 = arith.constant 0 : index
    %r = func.call @turn(%v, %n) : (vector<3xi1>, i32) -> vector<3xi1>
    vector.store %r, %out[%c0] : memref<3xi1>, vector<3xi1>
    gpu.return
  }
}
""",
        "cannot be passed to or returned by @turn on NVIDIA GPUs, since it is recursive",
    ),
    "in a struct": (
        """gpu.module @k {
  llvm.func @f(%s: !llvm.struct<(i32, vector<4xi1>)>) attributes {gpu.kernel} {
    llvm.return
  }
}
""",
        "vector<4xi1> cannot be passed to or returned by a kernel inside another type on NVIDIA GPUs",
    ),
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_signatures_that_llvm_passes_wrongly(name, level):
    source, message = REFUSED[name]
    with pytest.raises(StepError, match=message):
        compile_module(source, "sm_90", opt_level=level)


def test_what_lies_behind_a_parameter_is_not_read():
    ptx = """.version 7.0
.target sm_60
.address_size 64
.visible .entry f(.param .align 4 .b8 f_param_0[4]) {
  .reg .b32 %r<2>;
  ld.param.b32 %r1, [f_param_0+4];
  ret;
}
"""
    with pytest.raises(PtxError, match=r"line 6: .*4 bytes at \[f_param_0\+4\] are not in f_param_0"):
        device_ir(ptx, strict=True)
