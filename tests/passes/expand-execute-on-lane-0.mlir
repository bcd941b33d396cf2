// RUN: sm_60 expand-execute-on-lane-0

gpu.module @k {
  gpu.func @f(%l: index, %m: memref<?xf32>, %i: index, %x: f32) kernel {
    gpu.warp_execute_on_lane_0(%l)[32] {
      memref.store %x, %m[%i] : memref<?xf32>
    }
    gpu.return
  }
}

// CHECK: %[[Z:.*]] = arith.constant 0 : index
// CHECK: %[[F:.*]] = arith.cmpi eq, %arg0, %[[Z]] : index
// CHECK: scf.if %[[F]] {
// CHECK: memref.store %arg3, %arg1[%arg2]
