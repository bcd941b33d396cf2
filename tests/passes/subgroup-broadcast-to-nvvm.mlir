// RUN: sm_60 subgroup-broadcast-to-nvvm

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f32, %l: i32) kernel {
    %a = gpu.subgroup_broadcast %x, first_active_lane : f32
    %b = gpu.subgroup_broadcast %x, specific_lane %l : f32
    "test.use"(%a, %b) : (f32, f32) -> ()
    gpu.return
  }
}

// CHECK: %[[A:.*]] = llvm.call_intrinsic "llvm.nvvm.activemask"()
// CHECK: %[[F:.*]] = math.cttz %[[A]] : i32
// CHECK: nvvm.shfl.sync {{ *}}idx %[[A]], %{{.*}}, %[[F]],
// CHECK: %[[B:.*]] = llvm.call_intrinsic "llvm.nvvm.activemask"()
// CHECK: nvvm.shfl.sync {{ *}}idx %[[B]], %{{.*}}, %arg3,
