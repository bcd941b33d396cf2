// gpu.lane_id: a work-item's number in its subgroup.
// BREAK: s/lane_id/thread_id x/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<4x8xi32>) kernel {
      %x = gpu.thread_id x
      %y = gpu.thread_id y
      %lane = gpu.lane_id
      %value = arith.index_cast %lane : index to i32
      memref.store %value, %out[%y, %x] : memref<4x8xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %out = gpu.alloc host_shared () : memref<4x8xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c8, %c4, %c1)
        args(%out : memref<4x8xi32>)
    %print_out = memref.cast %out : memref<4x8xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<4x8xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 8] strides = [8, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3, 4, 5, 6, 7],
// CHECK-NEXT: [8, 9, 10, 11, 12, 13, 14, 15],
// CHECK-NEXT: [16, 17, 18, 19, 20, 21, 22, 23],
// CHECK-NEXT: [24, 25, 26, 27, 28, 29, 30, 31]]
