// RUN: sm_60 float-atomics-to-integers
// RUN: gfx90a float-atomics-to-integers

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f32, %z: memref<?xi32>) kernel {
    %a = memref.generic_atomic_rmw %m[%i] : memref<?xf32> {
    ^bb0(%current: f32):
      %new = arith.mulf %current, %x : f32
      memref.atomic_yield %new : f32
    }
    %b = memref.generic_atomic_rmw %z[%i] : memref<?xi32> {
    ^bb0(%current: i32):
      %new = arith.muli %current, %current : i32
      memref.atomic_yield %new : i32
    }
    gpu.return
  }
}

// CHECK: %[[M:.*]] = builtin.unrealized_conversion_cast %arg0 : memref<?xf32> to memref<?xi32>
// CHECK: memref.generic_atomic_rmw %[[M]][%arg1] : memref<?xi32> {
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// CHECK: %[[N:.*]] = arith.mulf
// CHECK: %[[B:.*]] = arith.bitcast %[[N]] : f32 to i32
// CHECK: memref.atomic_yield %[[B]] : i32
// CHECK: memref.generic_atomic_rmw %arg3[%arg1] : memref<?xi32> {
// CHECK-NOT: arith.bitcast
