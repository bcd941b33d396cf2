// RUN: cpu keep-barriers-apart --sanitize=barrier

// Upstream would make one barrier of both, and with it an error right.
gpu.module @k {
  func.func private @gpubuild.check_barrier(i32)
  gpu.func @f(%c: i1) kernel {
    scf.if %c {
      gpu.barrier
    } else {
      gpu.barrier
    }
    gpu.return
  }
}

// CHECK: scf.if
// CHECK: [[FIRST:%.+]] = arith.constant 0 : i32
// CHECK-NEXT: func.call @gpubuild.check_barrier([[FIRST]])
// CHECK: } else {
// CHECK: [[SECOND:%.+]] = arith.constant 1 : i32
// CHECK-NEXT: func.call @gpubuild.check_barrier([[SECOND]])
// CHECK-NOT: gpu.barrier
