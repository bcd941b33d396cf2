// gpu.block_id: a workgroup's place in the grid.
// BREAK: s/block_id y/block_id x/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<2x3xi32>) kernel {
      %c10 = arith.constant 10 : index
      %x = gpu.block_id x
      %y = gpu.block_id y
      %tens = arith.muli %y, %c10 : index
      %sum = arith.addi %tens, %x : index
      %value = arith.index_cast %sum : index to i32
      memref.store %value, %out[%y, %x] : memref<2x3xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %out = gpu.alloc host_shared () : memref<2x3xi32>
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c2 step %c1 {
      scf.for %j = %c0 to %c3 step %c1 {
        memref.store %zero, %out[%i, %j] : memref<2x3xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c3, %c2, %c1) threads in (%c1, %c1, %c1)
        args(%out : memref<2x3xi32>)
    %print_out = memref.cast %out : memref<2x3xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<2x3xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [2, 3] strides = [3, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2],
// CHECK-NEXT: [10, 11, 12]]
