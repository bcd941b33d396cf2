// RUN: cpu coalesce-workgroups

gpu.module @k {
  gpu.func @f(%a: memref<?xf32>, %x: f32) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %b = gpu.block_id x
    %c64 = arith.constant 64 : index
    %t = gpu.thread_id x
    %start = arith.muli %b, %c64 : index
    %i = arith.addi %start, %t : index
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
  // The number of the workgroup would be another.
  gpu.func @tells(%a: memref<?xindex>) kernel {
    %b = gpu.block_id x
    memref.store %b, %a[%b] : memref<?xindex>
    gpu.return
  }
  // Rows of memory of the workgroup.
  gpu.func @shares(%a: memref<?xf32>) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @f(
// CHECK-SAME: attributes {gpubuild.block_size = array<i32: 64, 1, 1>, gpubuild.coalesced}
// CHECK: [[I:%.+]] = gpu.global_id x
// CHECK: memref.store %arg1, %arg0{{.}}[[I]]]
// CHECK: gpu.func @tells(%arg0: memref<?xindex>) kernel {
// CHECK: gpu.func @shares({{.*}}) kernel {
