// RUN: sm_60 expand-copies

gpu.module @k {
  gpu.func @f(%a: memref<4x4xf32, strided<[8, 1]>>, %b: memref<4x4xf32>, %c: memref<4x4xf32>, %p: memref<8xi1>, %q: memref<8xi1>) kernel {
    memref.copy %a, %b : memref<4x4xf32, strided<[8, 1]>> to memref<4x4xf32>
    memref.copy %b, %c : memref<4x4xf32> to memref<4x4xf32>
    memref.copy %p, %q : memref<8xi1> to memref<8xi1>
    gpu.return
  }
}

// Upstream lowers copies of memory without gaps.
// CHECK-COUNT-2: scf.for
// CHECK: memref.load %arg0
// CHECK: memref.store %{{.*}}, %arg1
// CHECK: memref.copy %arg1, %arg2
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<8xi8> to memref<8xi8>
