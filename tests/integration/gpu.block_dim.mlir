// gpu.block_dim: the size of a workgroup; with ids it makes an index into the whole grid.
// BREAK: s/block_dim x/block_dim y/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<20xi32>) kernel {
      %block = gpu.block_id x
      %size = gpu.block_dim x
      %item = gpu.thread_id x
      %first = arith.muli %block, %size : index
      %i = arith.addi %first, %item : index
      %value = arith.index_cast %i : index to i32
      memref.store %value, %out[%i] : memref<20xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c20 = arith.constant 20 : index
    %out = gpu.alloc host_shared () : memref<20xi32>
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c20 step %c1 {
      memref.store %zero, %out[%i] : memref<20xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c4, %c1, %c1) threads in (%c5, %c1, %c1)
        args(%out : memref<20xi32>)
    %print_out = memref.cast %out : memref<20xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<20xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [20] strides = [1] data =
// CHECK-NEXT: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
