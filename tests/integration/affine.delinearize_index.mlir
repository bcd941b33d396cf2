// affine.delinearize_index: the place of a number in three dimensions of 2, 3 and 4.
// BREAK: s/into (2, 3, 4)/into (2, 4, 3)/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<24xi32>) kernel {
      %i = gpu.thread_id x
      %place:3 = affine.delinearize_index %i into (2, 3, 4) : index, index, index
      %digits = affine.apply affine_map<(a, b, c) -> (a * 100 + b * 10 + c)>(%place#0, %place#1, %place#2)
      %value = arith.index_cast %digits : index to i32
      memref.store %value, %out[%i] : memref<24xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c24 = arith.constant 24 : index
    %out = gpu.alloc host_shared () : memref<24xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c24, %c1, %c1)
        args(%out : memref<24xi32>)
    %print_out = memref.cast %out : memref<24xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<24xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [24] strides = [1] data =
// CHECK-NEXT: [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 100, 101, 102, 103, 110, 111, 112, 113, 120, 121, 122, 123]
