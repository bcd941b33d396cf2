// RUN: gfx90a subgroup-broadcast-to-rocdl

gpu.module @k {
  gpu.func @f(%m: memref<?xf32>, %i: index, %x: f32, %l: i32) kernel {
    %a = gpu.subgroup_broadcast %x, first_active_lane : f32
    %b = gpu.subgroup_broadcast %x, specific_lane %l : f32
    "test.use"(%a, %b) : (f32, f32) -> ()
    gpu.return
  }
}

// CHECK: %[[X:.*]] = arith.bitcast %arg2 : f32 to i32
// CHECK: rocdl.readfirstlane %[[X]]
// CHECK: rocdl.readlane %{{.*}}, %arg3
