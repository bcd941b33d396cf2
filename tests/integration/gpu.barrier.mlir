// gpu.barrier: work-items wait for each other; here all have loaded before one stores.
// BREAK: /gpu.barrier/d
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%row: memref<32xi32>) kernel {
      %c1 = arith.constant 1 : index
      %c32 = arith.constant 32 : index
      // Turns the row around in its own place.
      %i = gpu.thread_id x
      %last = arith.subi %c32, %c1 : index
      %from = arith.subi %last, %i : index
      %value = memref.load %row[%from] : memref<32xi32>
      gpu.barrier
      memref.store %value, %row[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %row = gpu.alloc host_shared () : memref<32xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %row[%i] : memref<32xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%row : memref<32xi32>)
    %print_row = memref.cast %row : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_row) : (memref<*xi32>) -> ()
    gpu.dealloc %row : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [961, 900, 841, 784, 729, 676, 625, 576, 529, 484, 441, 400, 361, 324, 289, 256, 225, 196, 169, 144, 121, 100, 81, 64, 49, 36, 25, 16, 9, 4, 1, 0]
