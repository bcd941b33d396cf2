// RUN: sm_90 expand-matrix-elementwise

gpu.module @k {
  gpu.func @f(%x: f32) kernel {
    %a = gpu.subgroup_mma_constant_matrix %x : !gpu.mma_matrix<16x16xf32, "COp">
    %d = gpu.subgroup_mma_elementwise subf %a, %a : (!gpu.mma_matrix<16x16xf32, "COp">, !gpu.mma_matrix<16x16xf32, "COp">) -> !gpu.mma_matrix<16x16xf32, "COp">
    %e = gpu.subgroup_mma_elementwise addf %d, %a : (!gpu.mma_matrix<16x16xf32, "COp">, !gpu.mma_matrix<16x16xf32, "COp">) -> !gpu.mma_matrix<16x16xf32, "COp">
    gpu.return
  }
}

// Upstream's conversion aborts on subtraction.
// CHECK: %[[A:.*]] = gpu.subgroup_mma_constant_matrix %arg0
// CHECK: arith.constant -1.000000e+00 : f32
// CHECK: %[[N:.*]] = gpu.subgroup_mma_elementwise {{ *}}mulf %[[A]], %{{.*}}
// CHECK: %[[D:.*]] = gpu.subgroup_mma_elementwise {{ *}}addf %[[A]], %[[N]]
// CHECK: gpu.subgroup_mma_elementwise {{ *}}addf %[[D]], %[[A]]
