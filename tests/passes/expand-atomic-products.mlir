// RUN: sm_60 expand-atomic-products

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f32) kernel {
    %a = memref.atomic_rmw mulf %x, %m[%i] : (f32, memref<?xf32>) -> f32
    %b = memref.atomic_rmw addf %x, %m[%i] : (f32, memref<?xf32>) -> f32
    gpu.return
  }
}

// CHECK: memref.generic_atomic_rmw %arg0[%arg1] : memref<?xf32> {
// CHECK: arith.mulf %{{.*}}, %arg2 : f32
// CHECK: memref.atomic_yield
// CHECK: memref.atomic_rmw addf
