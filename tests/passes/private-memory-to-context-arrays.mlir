// RUN: cpu private-memory-to-context-arrays

gpu.module @k {
  gpu.func @f.workgroup(%x: f32, %a: memref<?xf32>) kernel attributes {gpubuild.workgroup_of = "f",
      known_block_size = array<i32: 32, 1, 1>} {
    %c0 = arith.constant 0 : index
    %unused = memref.alloca() : memref<2xf32>
    %short = memref.alloca() : memref<3xf32>
    %long = memref.alloca() : memref<4xf32>
    memref.store %x, %long[%c0] : memref<4xf32>
    gpu.barrier
    memref.store %x, %short[%c0] : memref<3xf32>
    %y = memref.load %long[%c0] : memref<4xf32>
    memref.store %y, %a[%c0] : memref<?xf32>
    gpu.return
  }
  gpu.func @large.workgroup(%x: f32) kernel attributes {gpubuild.workgroup_of = "large"} {
    %c0 = arith.constant 0 : index
    %p = memref.alloca() : memref<100000xf32>
    gpu.barrier
    memref.store %x, %p[%c0] : memref<100000xf32>
    gpu.barrier
    memref.store %x, %p[%c0] : memref<100000xf32>
    gpu.return
  }
  gpu.func @large(%x: f32) kernel {
    gpu.return
  }
}

// CHECK: memref.global "private" @f.workgroup.private.0.context.0 : memref<2048xi8
// CHECK-LABEL: gpu.func @f.workgroup
// CHECK: [[ALL:%.+]] = memref.get_global @f.workgroup.private.0.context.0
// CHECK: [[OWN:%.+]] = memref.view [[ALL]]
// CHECK: [[LONG:%.+]] = memref.memory_space_cast [[OWN]]
// CHECK: memref.store %arg0, [[LONG]]
// CHECK: gpu.barrier
// CHECK-NEXT: [[SHORT:%.+]] = memref.alloca() : memref<3xf32>
// CHECK-NEXT: memref.store %arg0, [[SHORT]]
// CHECK-NEXT: memref.load [[LONG]]
// CHECK-NOT: memref<2xf32>
// CHECK: gpu.func @large{{.*}}gpubuild.no_fission = "400000 bytes of private memory for each work-item"
