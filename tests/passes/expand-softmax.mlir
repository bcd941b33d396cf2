// RUN: sm_60 expand-softmax

gpu.module @k {
  gpu.func @f(%a: memref<4x?xf32>, %b: memref<4x?xf32>) kernel {
    linalg.softmax dimension(1) ins(%a : memref<4x?xf32>) outs(%b : memref<4x?xf32>)
    gpu.return
  }
}

// CHECK: scf.for
// CHECK: %[[MOST:.*]] = scf.for
// CHECK: arith.maxnumf
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: arith.subf %{{.*}}, %[[MOST]] : f32
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: scf.for
// CHECK: arith.divf %{{.*}}, %[[SUM]] : f32
// CHECK-NOT: linalg
