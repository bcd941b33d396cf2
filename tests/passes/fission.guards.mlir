// RUN: cpu add-workgroup-functions..fission

gpu.module @k {
  gpu.func @guarded(%a: memref<?xf32>, %n: index, %x: f32) kernel {
    %i = gpu.global_id x
    %in = arith.cmpi slt, %i, %n : index
    scf.if %in {
      memref.store %x, %a[%i] : memref<?xf32>
    }
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @guarded.workgroup
// CHECK: [[LAST:%.+]] = arith.subi %block_dim_x, %c1
// CHECK: [[IN:%.+]] = arith.subi %arg1
// CHECK: [[NO_OVERFLOW:%.+]] = arith.andi
// One row at a time, or each work-item by itself where integers overflow.
// CHECK: arith.select [[NO_OVERFLOW]], %c1, %block_dim_x
// CHECK: scf.for
// CHECK: scf.for
// CHECK-NOT: scf.if
// CHECK: memref.store %arg2
// CHECK: gpu.func @guarded(
