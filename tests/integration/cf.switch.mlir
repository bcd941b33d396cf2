// cf.switch: branches between blocks, by a number.
// BREAK: s/3: ^triple/4: ^triple/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %value = arith.index_cast %i : index to i32
      %five = arith.constant 5 : i32
      %three = arith.constant 3 : i32
      %zero = arith.constant 0 : i32
      %rest = arith.remsi %value, %five : i32
      cf.switch %rest : i32, [
        default: ^store(%value : i32),
        1: ^store(%zero : i32),
        3: ^triple
      ]
      ^triple:
      %three_times = arith.muli %value, %three : i32
      cf.br ^store(%three_times : i32)
      ^store(%result: i32):
      memref.store %result, %out[%i] : memref<32xi32>
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
// CHECK-NEXT: [0, 0, 2, 9, 4, 5, 0, 7, 24, 9, 10, 0, 12, 39, 14, 15, 0, 17, 54, 19, 20, 0, 22, 69, 24, 25, 0, 27, 84, 29, 30, 0]
