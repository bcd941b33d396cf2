// func.call: calls a function that waits at a barrier, as all its callers do.
// BREAK: /gpu.barrier/d
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // Moves a number one place on, around the end, when all others are on their way.
    func.func @put_beside(%row: memref<32xi32>, %i: index, %value: i32) {
      %c1 = arith.constant 1 : index
      %c32 = arith.constant 32 : index
      %next = arith.addi %i, %c1 : index
      %place = arith.remui %next, %c32 : index
      gpu.barrier
      memref.store %value, %row[%place] : memref<32xi32>
      return
    }

    gpu.func @kernel(%row: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %value = memref.load %row[%i] : memref<32xi32>
      func.call @put_beside(%row, %i, %value) : (memref<32xi32>, index, i32) -> ()
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
// CHECK-NEXT: [961, 0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121, 144, 169, 196, 225, 256, 289, 324, 361, 400, 441, 484, 529, 576, 625, 676, 729, 784, 841, 900]
