// RUN: sm_60 expand-subgroup-size
// RUN: cpu expand-subgroup-size

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index) kernel {
    %s = gpu.subgroup_size : index
    %x = memref.load %m[%s] : memref<?xf32>
    gpu.return
  }
}

// AMD GPUs ask the device.
// SM_60-NOT: gpu.subgroup_size
// SM_60: %[[S:.*]] = arith.constant 32 : index
// SM_60: memref.load %arg0[%[[S]]]
// CPU: arith.constant 32 : index
