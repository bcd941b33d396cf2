// gpu.cluster_dim_blocks: how many workgroups a cluster has.
// BREAK: s/cluster_dim_blocks x/cluster_dim_blocks y/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<4x6xi32>) kernel {
      %c10 = arith.constant 10 : index
      %x = gpu.block_id x
      %y = gpu.block_id y
      %in_x = gpu.cluster_dim_blocks x
      %in_y = gpu.cluster_dim_blocks y
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
// CHECK-NEXT: {{\[\[}}12, 12, 12, 12, 12, 12],
// CHECK-NEXT: [12, 12, 12, 12, 12, 12],
// CHECK-NEXT: [12, 12, 12, 12, 12, 12],
// CHECK-NEXT: [12, 12, 12, 12, 12, 12]]
