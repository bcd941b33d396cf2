// RUN: cpu separate-parallel-loops
gpu.module @k {
  // CHECK-LABEL: gpu.func @tile.workgroup
  // CHECK: scf.parallel
  // CHECK-NEXT: gpu.barrier
  gpu.func @tile.workgroup(%a: memref<?xf32>) kernel attributes {gpubuild.workgroup_of = "tile"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %v = arith.constant 1.0 : f32
    %n = gpu.block_dim x
    %i = gpu.thread_id x
    scf.parallel (%r) = (%c0) to (%c4) step (%c1) {
      %more = arith.muli %r, %n : index
      %j = arith.addi %i, %more : index
      memref.store %v, %a[%j] : memref<?xf32>
      scf.reduce
    }
    gpu.return
  }
  // Work-items run this one in different numbers: a barrier in it would never be passed.
  // CHECK-LABEL: gpu.func @uneven.workgroup
  // CHECK-NOT: gpu.barrier
  gpu.func @uneven.workgroup(%a: memref<?xf32>) kernel attributes {gpubuild.workgroup_of = "uneven"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %v = arith.constant 1.0 : f32
    %i = gpu.thread_id x
    scf.parallel (%r) = (%c0) to (%i) step (%c1) {
      memref.store %v, %a[%r] : memref<?xf32>
      scf.reduce
    }
    gpu.return
  }
  // One under a condition is not reached by all work-items.
  // CHECK-LABEL: gpu.func @divergent.workgroup
  // CHECK-NOT: gpu.barrier
  gpu.func @divergent.workgroup(%a: memref<?xf32>) kernel attributes {gpubuild.workgroup_of = "divergent"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %v = arith.constant 1.0 : f32
    %i = gpu.thread_id x
    %few = arith.cmpi ult, %i, %c4 : index
    scf.if %few {
      scf.parallel (%r) = (%c0) to (%c4) step (%c1) {
        memref.store %v, %a[%r] : memref<?xf32>
        scf.reduce
      }
    }
    gpu.return
  }
}
