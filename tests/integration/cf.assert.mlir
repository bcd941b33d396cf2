// cf.assert: ends the program where a condition fails; here all numbers are below the limit.
// BREAK: s/%limit = arith.constant 1000/%limit = arith.constant 900/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xi32>
      %limit = arith.constant 1000 : i32
      %inside = arith.cmpi slt, %x_i, %limit : i32
      cf.assert %inside, "a number is too large"
      %rest = arith.subi %limit, %x_i : i32
      memref.store %rest, %x[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<32xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xi32>)
    %print_x = memref.cast %x : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [1000, 999, 996, 991, 984, 975, 964, 951, 936, 919, 900, 879, 856, 831, 804, 775, 744, 711, 676, 639, 600, 559, 516, 471, 424, 375, 324, 271, 216, 159, 100, 39]
