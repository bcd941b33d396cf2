// RUN: spirv expand-float-atomics

gpu.module @k {
  gpu.func @f(%x: memref<4xf32>, %n: memref<4xi32>, %i: index, %v: f32, %w: i32) kernel {
    %r = memref.atomic_rmw maxnumf %v, %x[%i] : (f32, memref<4xf32>) -> f32
    %s = memref.atomic_rmw addi %w, %n[%i] : (i32, memref<4xi32>) -> i32
    gpu.return
  }
}

// CHECK: memref.generic_atomic_rmw %arg0[%arg2]
// CHECK: [[OLD:%.*]]: f32):
// CHECK: [[NEW:%.*]] = arith.maxnumf [[OLD]], %arg3 : f32
// CHECK: memref.atomic_yield [[NEW]]
// CHECK: memref.atomic_rmw addi
