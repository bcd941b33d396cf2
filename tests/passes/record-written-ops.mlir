// RUN: cpu record-written-ops..lower-barriers

// Messages name the operation of the source, whatever passes have made of it.
gpu.module @k {
  func.func @f(%x: f32, %a: memref<f32>) {
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %y, %valid = gpu.shuffle xor %x, %c1, %c32 : f32
    memref.store %y, %a[] : memref<f32>
    return
  }
}

// CHECK: llvm.func @f{{.*}}gpubuild.waits = "gpu.shuffle at k.mlir:{{[0-9]+}}:
