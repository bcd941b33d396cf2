// memref.global: a table of constants in the kernels' module.
// BREAK: s/[2, 3, 5, 7, 11, 13, 17, 19]/[2, 3, 5, 7, 11, 13, 17, 23]/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    memref.global "private" constant @primes : memref<8xi32> = dense<[2, 3, 5, 7, 11, 13, 17, 19]>

    gpu.func @kernel(%out: memref<32xi32>) kernel {
      %c8 = arith.constant 8 : index
      %i = gpu.thread_id x
      %table = memref.get_global @primes : memref<8xi32>
      %place = arith.remui %i, %c8 : index
      %prime = memref.load %table[%place] : memref<8xi32>
      %number = arith.index_cast %i : index to i32
      %product = arith.muli %prime, %number : i32
      memref.store %product, %out[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %out = gpu.alloc host_shared () : memref<32xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%out : memref<32xi32>)
    %print_out = memref.cast %out : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [0, 3, 10, 21, 44, 65, 102, 133, 16, 27, 50, 77, 132, 169, 238, 285, 32, 51, 90, 133, 220, 273, 374, 437, 48, 75, 130, 189, 308, 377, 510, 589]
