// RUN: sm_60 expand-subgroup-ids
// RUN: gfx90a expand-subgroup-ids

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index) kernel {
    %g = gpu.subgroup_id : index
    %n = gpu.num_subgroups : index
    %x = memref.load %m[%g] : memref<?xf32>
    memref.store %x, %m[%n] : memref<?xf32>
    gpu.return
  }
}

// Work-items are numbered with x fastest; the last subgroup may have fewer.
// SM_60: %[[X:.*]] = gpu.thread_id {{ *}}x
// SM_60: %[[P:.*]] = arith.addi %{{.*}}, %[[X]] : index
// SM_60: %[[S:.*]] = arith.constant 32 : index
// SM_60: %[[G:.*]] = arith.divui %[[P]], %[[S]] : index
// SM_60: arith.constant 31 : index
// SM_60: %[[N:.*]] = arith.divui
// SM_60: memref.load %arg0[%[[G]]]
// SM_60: memref.store %{{.*}}, %arg0[%[[N]]]

// GFX90A: arith.constant 64 : index
// GFX90A: arith.constant 63 : index
