// RUN: cpu prove-accesses --sanitize=bounds

// Where the launch has no more work-items than the memref elements, a copy of the kernel needs no check.
gpu.module @k {
  gpu.func @f(%a: memref<?xf32>, %x: f32) kernel {
    %i = gpu.global_id x
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
}

// CHECK: [[ITEMS:%.+]] = arith.muli %block_dim_x, %grid_dim_x
// CHECK: [[MOST:%.+]] = arith.addi [[ITEMS]], %c-1
// CHECK: [[SIZE:%.+]] = memref.dim %arg0
// CHECK: arith.cmpi slt, [[MOST]], [[SIZE]]
// CHECK: scf.if
// CHECK: memref.store {{.*}} {gpubuild.proven = ["bounds"]}
// CHECK: } else {
// CHECK: memref.store
// CHECK-NOT: gpubuild.proven
// CHECK: } {gpubuild.versioned}
