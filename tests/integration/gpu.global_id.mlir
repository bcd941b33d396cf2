// gpu.global_id: a work-item's place in the grid, over all workgroups.
// BREAK: s/global_id x/thread_id x/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<21xi32>) kernel {
      %c21 = arith.constant 21 : index
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %c21 : index
      scf.if %inside {
        %value = arith.index_cast %i : index to i32
        memref.store %value, %out[%i] : memref<21xi32>
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %c21 = arith.constant 21 : index
    %out = gpu.alloc host_shared () : memref<21xi32>
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c21 step %c1 {
      memref.store %zero, %out[%i] : memref<21xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c3, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%out : memref<21xi32>)
    %print_out = memref.cast %out : memref<21xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<21xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [21] strides = [1] data =
// CHECK-NEXT: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
