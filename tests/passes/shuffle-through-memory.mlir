// RUN: cpu shuffle-through-memory

gpu.module @k {
  gpu.func @f.workgroup(%x: f32, %o: i32) kernel attributes {gpubuild.workgroup_of = "f",
      known_block_size = array<i32: 40, 1, 1>} {
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %y, %valid = gpu.shuffle xor %x, %c1, %c32 : f32
    // The source lane is not known statically.
    %z, %known = gpu.shuffle idx %y, %o, %c32 : f32
    gpu.return
  }
}

// CHECK: memref.global "private" @f.workgroup.shuffle.context.0 : memref<64xf32
// CHECK: memref.store %arg0, [[GIVEN:%.+]][[[ITEM:%.+]]] : memref<64xf32
// CHECK: nvvm.bar.warp.sync
// CHECK-SAME: gpubuild.static_shuffle = {given = "f.workgroup.shuffle.context.0", sources = array<i64: 1, 0, 3, 2,
// CHECK-SAME: taken = "f.workgroup.shuffle.context.1"}
// CHECK: memref.load {{.*}} {gpubuild.from_lane, gpubuild.taken = "f.workgroup.shuffle.context.1"}
// CHECK: nvvm.bar.warp.sync {{.*}} {gpubuild.for = "gpu.shuffle"}
// CHECK: memref.load {{.*}} {gpubuild.from_lane}
// CHECK-NOT: gpu.shuffle xor
