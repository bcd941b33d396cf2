// gpu.cluster_id: a cluster's place in the grid; a cluster is some workgroups that run together.
// BREAK: s/cluster_id x/cluster_id y/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<4x6xi32>) kernel {
      %c10 = arith.constant 10 : index
      %x = gpu.block_id x
      %y = gpu.block_id y
      %in_x = gpu.cluster_id x
      %in_y = gpu.cluster_id y
      %tens = arith.muli %in_y, %c10 : index
      %sum = arith.addi %tens, %in_x : index
      %value = arith.index_cast %sum : index to i32
      memref.store %value, %out[%y, %x] : memref<4x6xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %c6 = arith.constant 6 : index
    %out = gpu.alloc host_shared () : memref<4x6xi32>
    gpu.launch_func @kernels::@kernel
        clusters in (%c2, %c1, %c1) blocks in (%c6, %c4, %c1) threads in (%c1, %c1, %c1)
        args(%out : memref<4x6xi32>)
    %print_out = memref.cast %out : memref<4x6xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<4x6xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 6] strides = [6, 1] data =
// CHECK-NEXT: {{\[\[}}0, 0, 1, 1, 2, 2],
// CHECK-NEXT: [10, 10, 11, 11, 12, 12],
// CHECK-NEXT: [20, 20, 21, 21, 22, 22],
// CHECK-NEXT: [30, 30, 31, 31, 32, 32]]
