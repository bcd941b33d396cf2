// RUN: x86-64-v3 exchange-values
// RUN: sm_60 exchange-values
// RUN: gfx90a exchange-values

gpu.module @k {
  gpu.func @f(%m: memref<?xi16>, %i: index, %x: i16) kernel {
    %a = memref.generic_atomic_rmw %m[%i] : memref<?xi16> {
    ^bb0(%current: i16):
      memref.atomic_yield %x : i16
    }
    %b = memref.generic_atomic_rmw %m[%i] : memref<?xi16> {
    ^bb0(%current: i16):
      %new = arith.muli %current, %a : i16
      memref.atomic_yield %new : i16
    }
    memref.store %b, %m[%i] : memref<?xi16>
    gpu.return
  }
}

// CHECK: %[[A:.*]] = memref.atomic_rmw assign %arg2, %arg0[%arg1] : (i16, memref<?xi16>) -> i16
// CHECK: memref.generic_atomic_rmw %arg0[%arg1] : memref<?xi16> {
// CHECK: arith.muli %{{.*}}, %[[A]] : i16
