// gpu.warp_execute_on_lane_0: a region for the first work-item of each subgroup.
// BREAK: s/%lane = gpu.lane_id/%lane = arith.constant 1 : index/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %lane = gpu.lane_id
      %number = arith.index_cast %i : index to i32
      memref.store %number, %out[%i] : memref<32xi32>
      gpu.warp_execute_on_lane_0(%lane)[32] {
        %minus = arith.constant -1 : i32
        memref.store %minus, %out[%i] : memref<32xi32>
      }
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
// CHECK-NEXT: [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]
