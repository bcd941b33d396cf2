// RUN: cpu check-matrices-and-copies --sanitize=bounds

gpu.module @k {
  gpu.func @f(%a: memref<?x?xf32>, %b: memref<4xf32>, %c: memref<4xf32>, %i: index) kernel {
    %m = gpu.subgroup_mma_load_matrix %a[%i, %i] {leadDimension = 64 : index}
      : memref<?x?xf32> -> !gpu.mma_matrix<16x16xf32, "COp">
    memref.copy %b, %c : memref<4xf32> to memref<4xf32>
    gpu.return
  }
}

// CHECK: func.func private @gpubuild.check_view
// CHECK: [[OUTSIDE:%.+]] = arith.xori
// CHECK: scf.if [[OUTSIDE]] {
// CHECK: func.call @gpubuild.check_view
// CHECK: gpu.subgroup_mma_load_matrix
// CHECK-NOT: memref.copy
// CHECK: scf.for
// CHECK: memref.load %arg1
