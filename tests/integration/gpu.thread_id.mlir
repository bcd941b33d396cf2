// gpu.thread_id: a work-item's place in its workgroup.
// BREAK: s/thread_id y/thread_id x/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<3x4xi32>) kernel {
      %c10 = arith.constant 10 : index
      %x = gpu.thread_id x
      %y = gpu.thread_id y
      %tens = arith.muli %y, %c10 : index
      %sum = arith.addi %tens, %x : index
      %value = arith.index_cast %sum : index to i32
      memref.store %value, %out[%y, %x] : memref<3x4xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %out = gpu.alloc host_shared () : memref<3x4xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c4, %c3, %c1)
        args(%out : memref<3x4xi32>)
    %print_out = memref.cast %out : memref<3x4xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<3x4xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [3, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3],
// CHECK-NEXT: [10, 11, 12, 13],
// CHECK-NEXT: [20, 21, 22, 23]]
