// RUN: cpu hoist-loop-allocations

// An array of an iteration would take more of the stack each time. One that is kept across
// iterations of a while loop stays where it is.
gpu.module @k {
  gpu.func @f(%a: memref<4xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %p = memref.alloca() : memref<4xf32>
      memref.copy %a, %p : memref<4xf32> to memref<4xf32>
    }
    scf.while (%i = %c0) : (index) -> () {
      %more = arith.cmpi ult, %i, %n : index
      scf.condition(%more)
    } do {
      %q = memref.alloca() : memref<8xf32>
      scf.yield %n : index
    }
    gpu.return
  }
}

// CHECK: gpu.func @f
// CHECK-NEXT: memref.alloca() : memref<4xf32>
// CHECK: scf.for
// CHECK-NOT: memref.alloca() : memref<4xf32>
// CHECK: scf.while
// CHECK: memref.alloca() : memref<8xf32>
