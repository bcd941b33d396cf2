// RUN: cpu add-workgroup-functions..begin-grid-loops-together

// A loop that begins at the work-item's own row counts from the workgroup's first row.
gpu.module @k {
  gpu.func @rows(%a: memref<?x?xf32>, %n: index) kernel {
    %x = gpu.global_id x
    %y = gpu.global_id y
    %groups = gpu.grid_dim y
    %size = gpu.block_dim y
    %all = arith.muli %groups, %size : index
    scf.for %i = %y to %n step %all {
      %p = memref.load %a[%i, %x] : memref<?x?xf32>
      %q = arith.addf %p, %p : f32
      memref.store %q, %a[%i, %x] : memref<?x?xf32>
    }
    gpu.return
  }
  gpu.func @of_the_group(%a: memref<?x?xf32>, %n: index) kernel {
    %x = gpu.global_id x
    %z = gpu.thread_id z
    %size = gpu.block_dim z
    scf.for %i = %z to %n step %size {
      %p = memref.load %a[%i, %x] : memref<?x?xf32>
      memref.store %p, %a[%x, %i] : memref<?x?xf32>
    }
    gpu.return
  }
  // Not where work-items have other bounds, or barriers are inside, or something is carried.
  gpu.func @others(%a: memref<?x?xf32>, %c: memref<?xindex>, %n: index) kernel {
    %c1 = arith.constant 1 : index
    %x = gpu.global_id x
    %y = gpu.global_id y
    scf.for %i = %y to %x step %c1 {
      memref.store %i, %c[%i] : memref<?xindex>
    }
    scf.for %i = %y to %n step %c1 {
      gpu.barrier
    }
    %s = scf.for %i = %y to %n step %c1 iter_args(%t = %c1) -> index {
      %u = arith.addi %t, %i : index
      scf.yield %u : index
    }
    memref.store %s, %c[%x] : memref<?xindex>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @rows.workgroup
// CHECK: [[FIRST:%.+]] = arith.muli %block_id_y, {{%block_dim_y.*}} : index
// CHECK: scf.for [[I:%.+]] = [[FIRST]] to %arg1 step {{%.+}} {
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: [[ROW:%.+]] = gpu.thread_id  y
// CHECK-NEXT: [[AT:%.+]] = arith.addi [[I]], [[ROW]] : index
// CHECK-NEXT: [[IN:%.+]] = arith.cmpi slt, [[AT]], %arg1 : index
// CHECK-NEXT: scf.if [[IN]] {
// CHECK-NEXT: memref.load %arg0{{.}}[[AT]], {{%.+}}]
// CHECK-LABEL: gpu.func @rows(
// CHECK-NOT: gpu.barrier
// CHECK-LABEL: gpu.func @of_the_group.workgroup
// CHECK: [[PLANE:%.+]] = gpu.thread_id  z
// CHECK: scf.for {{%.+}} = %c0{{.*}} to %arg1 step
// CHECK-NEXT: gpu.barrier
// CHECK-LABEL: gpu.func @of_the_group(
// CHECK-LABEL: gpu.func @others.workgroup
// CHECK: scf.for {{%.+}} = %global_id_y to %global_id_x
// CHECK: scf.for {{%.+}} = %global_id_y to %arg2
// CHECK: scf.for {{%.+}} = %global_id_y to %arg2
