// RUN: cpu hoist-ids

// Ids inside a loop, or under a condition, are read at the entry.
gpu.module @k {
  gpu.func @sums(%a: memref<?x?xf32>, %n: index, %in: i1) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %x = gpu.global_id x
      %v = memref.load %a[%i, %x] : memref<?x?xf32>
      scf.if %in {
        %lane = gpu.lane_id
        memref.store %v, %a[%i, %lane] : memref<?x?xf32>
      }
    }
    gpu.return
  }
  func.func @called(%n: index, %a: memref<?xindex>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %x = gpu.thread_id x
      memref.store %x, %a[%i] : memref<?xindex>
    }
    return
  }
}

// CHECK-LABEL: gpu.func @sums
// CHECK-DAG: gpu.global_id  x
// CHECK-DAG: gpu.lane_id
// CHECK: scf.for
// CHECK-NOT: = gpu.
// CHECK: gpu.return
// CHECK-LABEL: func.func @called
// CHECK: scf.for
// CHECK-NEXT: gpu.thread_id  x
