// RUN: cpu expand-subgroup-broadcast

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: i32, %l: i32, %c: i1) kernel {
    %a = gpu.subgroup_broadcast %x, first_active_lane : i32
    scf.if %c {
      %b = gpu.subgroup_broadcast %x, specific_lane %l : i32
      "test.use"(%b) : (i32) -> ()
    }
    "test.use"(%a) : (i32) -> ()
    gpu.return
  }
}

// Where all come by, the first lane is active. In a branch others are not waited for.
// CHECK: %[[F:.*]] = arith.constant 0 : i32
// CHECK: gpu.shuffle {{ *}}idx %arg2, %[[F]], %{{.*}} : i32
// CHECK: scf.if
// CHECK: gpu.shuffle {{ *}}idx %arg2, %arg3, %{{.*}} {gpubuild.some_lanes} : i32
