"""Parameters of kernels and functions, in PTX: what is declared, what is read, and where."""

from __future__ import annotations

import numpy as np
import pytest
from simulators.device_ir.runner import DeviceModule
from simulators.ptx.source import PtxError
from simulators.ptx.translate import device_ir
from unit.engine.device_steps import compile_module, in_child

# Elements that are not of whole bytes lie bit by bit, those of rows apart; the function is called where
# nothing is optimised, and returns two values.
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
    assert ("call.uni" in ptx) is (level == 0)
    got = in_child(result, ptx)
    assert got[:8] == [0, 1, 0, 1, 1, 0, 1, 0]
    assert got[8:11] == [6, -2, 10]
    assert got[16:22] == [1, 1, 0, 0, 0, 1]
    assert got[24:28] == [1, 15, 10, 7]
    assert got[32] == -7 and got[40:43] == [1, -2, 3]
    assert got[48:57] == [1, 1, 0, 0, 0, 1, 1, 0, 1]


BY_ADDRESS = """gpu.module @k {
  func.func @first(%p: i1, %n: i24, %v: vector<5xi1>) -> (vector<5xi1>, i7, i1) {
    %t = arith.trunci %n : i24 to i7
    return %v, %t, %p : vector<5xi1>, i7, i1
  }
  func.func @second(%p: i1, %n: i24, %v: vector<5xi1>) -> (vector<5xi1>, i7, i1) {
    %c = arith.constant 9 : i7
    %no = arith.constant false
    return %v, %c, %no : vector<5xi1>, i7, i1
  }
  gpu.func @f(%x: i32, %out: memref<16xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c9 = arith.constant 9 : index
    %zero = arith.constant 0 : i32
    %p = arith.cmpi sgt, %x, %zero : i32
    %n = arith.trunci %x : i32 to i24
    %y = vector.broadcast %x : i32 to vector<5xi32>
    %s = arith.constant dense<[0, 1, 2, 3, 4]> : vector<5xi32>
    %z = arith.shrsi %y, %s : vector<5xi32>
    %v = arith.trunci %z : vector<5xi32> to vector<5xi1>
    %one = func.constant @first : (i1, i24, vector<5xi1>) -> (vector<5xi1>, i7, i1)
    %two = func.constant @second : (i1, i24, vector<5xi1>) -> (vector<5xi1>, i7, i1)
    %g = arith.select %p, %one, %two : (i1, i24, vector<5xi1>) -> (vector<5xi1>, i7, i1)
    %w, %i7, %q = func.call_indirect %g(%p, %n, %v) : (i1, i24, vector<5xi1>) -> (vector<5xi1>, i7, i1)
    %a = arith.extui %w : vector<5xi1> to vector<5xi32>
    %b = arith.extui %i7 : i7 to i32
    %c = arith.extui %q : i1 to i32
    vector.store %a, %out[%c0] : memref<16xi32>, vector<5xi32>
    memref.store %b, %out[%c8] : memref<16xi32>
    memref.store %c, %out[%c9] : memref<16xi32>
    gpu.return
  }
}
"""


def both(ptx: str) -> list[list[int]]:
    module = DeviceModule.load(device_ir(ptx, strict=True), "sm_90")
    found = []
    for x in (0b1010110, -11):
        out = np.zeros(16, np.int32)
        module.launch("f", 1, 1, np.int32(x), out)
        found.append([*out[:5].tolist(), *out[8:10].tolist()])
    return found


@pytest.mark.parametrize("level", [0, 3])
def test_functions_called_by_address(level):
    """LLVM's code generator ends the process over integers of other sizes there."""
    ptx = compile_module(BY_ADDRESS, "sm_90", opt_level=level).asm
    assert ".callprototype" in ptx
    assert in_child(both, ptx) == [[0, 1, 1, 0, 1, 0b1010110, 1], [1, 0, 1, 0, 1, 9, 0]]


SHAPE = '!llvm.struct<"a (i7, <b", (i32, vector<4xi1>, struct<()>)>'
# Functions in a table, a struct with a name and one with an empty member, and a call with "...".
OTHERS = f"""gpu.module @k {{
  llvm.func @more(%p: i1 {{llvm.range = #llvm.constant_range<i1, 0, 1>}}, %n: i7) -> i7 {{
    %z = llvm.zext %p : i1 to i7
    %s = llvm.add %n, %z : i7
    llvm.return %s : i7
  }}
  llvm.func @less(%p: i1, %n: i7) -> i7 {{
    %z = llvm.zext %p : i1 to i7
    %s = llvm.sub %n, %z : i7
    llvm.return %s : i7
  }}
  llvm.mlir.global internal constant @table() : !llvm.array<2 x ptr> {{
    %t = llvm.mlir.poison : !llvm.array<2 x ptr>
    %p = llvm.mlir.addressof @more : !llvm.ptr
    %q = llvm.mlir.addressof @less : !llvm.ptr
    %u = llvm.insertvalue %p, %t[0] : !llvm.array<2 x ptr>
    %v = llvm.insertvalue %q, %u[1] : !llvm.array<2 x ptr>
    llvm.return %v : !llvm.array<2 x ptr>
  }}
  llvm.func @turn(%s: {SHAPE}, %e: !llvm.struct<(struct<()>, vector<4xi1>)>) -> {SHAPE} {{
    %v = llvm.extractvalue %e[1] : !llvm.struct<(struct<()>, vector<4xi1>)>
    %w = llvm.extractvalue %s[1] : {SHAPE}
    %x = llvm.xor %v, %w : vector<4xi1>
    %r = llvm.insertvalue %x, %s[1] : {SHAPE}
    llvm.return %r : {SHAPE}
  }}
  llvm.func @second(%s: vector<4xi1>, ...) -> i1 {{
    %one = llvm.mlir.constant(1 : i32) : i32
    %w = llvm.extractelement %s[%one : i32] : vector<4xi1>
    llvm.return %w : i1
  }}
  llvm.func @third(%s: vector<4xi1>, ...) -> i1 {{
    %two = llvm.mlir.constant(2 : i32) : i32
    %w = llvm.extractelement %s[%two : i32] : vector<4xi1>
    llvm.return %w : i1
  }}
  gpu.func @f(%x: i32, %out: memref<16xi32>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %p = arith.trunci %x : i32 to i1
    %n = arith.trunci %x : i32 to i7
    %one = arith.constant 1 : i32
    %h = arith.shrsi %x, %one : i32
    %i = arith.andi %h, %one : i32
    %t = llvm.mlir.addressof @table : !llvm.ptr
    %a = llvm.getelementptr %t[%i] : (!llvm.ptr, i32) -> !llvm.ptr, !llvm.ptr
    %g = llvm.load %a : !llvm.ptr -> !llvm.ptr
    %i7 = llvm.call %g(%p, %n) : !llvm.ptr, (i1, i7) -> i7
    %b = arith.extui %i7 : i7 to i32
    memref.store %b, %out[%c0] : memref<16xi32>

    %i4 = arith.trunci %x : i32 to i4
    %v = llvm.bitcast %i4 : i4 to vector<4xi1>
    %m = arith.constant dense<[true, false, false, true]> : vector<4xi1>
    %poison = llvm.mlir.poison : {SHAPE}
    %q = llvm.insertvalue %x, %poison[0] : {SHAPE}
    %s = llvm.insertvalue %v, %q[1] : {SHAPE}
    %k = llvm.mlir.poison : !llvm.struct<(struct<()>, vector<4xi1>)>
    %e = llvm.insertvalue %m, %k[1] : !llvm.struct<(struct<()>, vector<4xi1>)>
    %r = llvm.call @turn(%s, %e) : ({SHAPE}, !llvm.struct<(struct<()>, vector<4xi1>)>) -> {SHAPE}
    %d = llvm.extractvalue %r[0] : {SHAPE}
    %w = llvm.extractvalue %r[1] : {SHAPE}
    %u = arith.extui %w : vector<4xi1> to vector<4xi32>
    memref.store %d, %out[%c1] : memref<16xi32>
    vector.store %u, %out[%c8] : memref<16xi32>, vector<4xi32>

    %f2 = llvm.mlir.addressof @second : !llvm.ptr
    %f3 = llvm.mlir.addressof @third : !llvm.ptr
    %f = llvm.select %p, %f3, %f2 : i1, !llvm.ptr
    %l = llvm.call %f(%v, %p) vararg(!llvm.func<i1 (vector<4xi1>, ...)>) : !llvm.ptr, (vector<4xi1>, i1) -> i1
    %y = arith.extui %l : i1 to i32
    memref.store %y, %out[%c2] : memref<16xi32>
    gpu.return
  }}
}}
"""


def each(ptx: str) -> list[list[int]]:
    module = DeviceModule.load(device_ir(ptx, strict=True), "sm_90")
    found = []
    for x in (0b1010110, -11, 3):
        out = np.zeros(16, np.int32)
        module.launch("f", 1, 1, np.int32(x), out)
        found.append([*out[:3].tolist(), *out[8:12].tolist()])
    return found


def test_tables_of_functions_and_other_types():
    made = compile_module(OTHERS, "sm_90", opt_level=0)
    assert made.asm.count(".callprototype") == 2
    assert "freeze <4 x i1>" in made.llvm  # One element of poison must not make poison of all.
    assert in_child(each, made.asm) == [
        [0b1010110, 0b1010110, 1, 1, 1, 1, 1],
        [118, -11, 1, 0, 0, 1, 1],
        [2, 3, 0, 0, 1, 0, 1],
    ]


LIBRARY = """target triple = "nvptx64-nvidia-cuda"
define i1 @elsewhere(i1 %p, i24 %n) {
  %m = lshr i24 %n, 23
  %b = trunc i24 %m to i1
  %r = xor i1 %b, %p
  ret i1 %r
}
"""
OF_LIBRARY = """gpu.module @k {
  llvm.func @elsewhere(i1, i24) -> i1
  llvm.func @not(%p: i1, %n: i24) -> i1 {
    %r = llvm.call @elsewhere(%p, %n) : (i1, i24) -> i1
    %yes = llvm.mlir.constant(true) : i1
    %s = llvm.xor %r, %yes : i1
    llvm.return %s : i1
  }
  gpu.func @f(%x: i32, %out: memref<16xi32>) kernel {
    %c0 = arith.constant 0 : index
    %p = arith.trunci %x : i32 to i1
    %n = arith.trunci %x : i32 to i24
    %f = llvm.mlir.addressof @elsewhere : !llvm.ptr
    %g = llvm.mlir.addressof @not : !llvm.ptr
    %two = arith.constant 2 : i32
    %b = arith.andi %x, %two : i32
    %q = arith.cmpi ne, %b, %two : i32
    %h = llvm.select %q, %f, %g : i1, !llvm.ptr
    %r = llvm.call %h(%p, %n) : !llvm.ptr, (i1, i24) -> i1
    %e = arith.extui %r : i1 to i32
    memref.store %e, %out[%c0] : memref<16xi32>
    gpu.return
  }
}
"""


def test_functions_of_a_library_called_by_address():
    """What is declared here is as such calls give it; the library's code reads the same bits."""
    made = compile_module(OF_LIBRARY, "sm_90", libraries=(LIBRARY,))
    assert [row[0] for row in in_child(each, made.asm)] == [1, 0, 0]


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
