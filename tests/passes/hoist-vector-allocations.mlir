// RUN: cpu vectors-to-loops..hoist-vector-allocations

// Upstream's conversion of a transfer of two dimensions makes an array in the loop.
gpu.module @k {
  gpu.func @f(%a: memref<?x?xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    scf.for %i = %c0 to %n step %c1 {
      %v = vector.transfer_read %a[%i, %c0], %zero : memref<?x?xf32>, vector<2x4xf32>
      vector.transfer_write %v, %a[%c0, %i] : vector<2x4xf32>, memref<?x?xf32>
    }
    gpu.return
  }
}

// CHECK: gpu.func @f
// CHECK-NEXT: memref.alloca() : memref<vector<2x4xf32>>
// CHECK-NEXT: memref.alloca() : memref<vector<2x4xf32>>
// CHECK: scf.for
// CHECK-NOT: memref.alloca
