// arith.extf: floats of 8 bits, which are formats for memory: numbers are made wider, computed with, and
// narrowed again.
// BREAK: s/f8E5M2/f8E4M3FN/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>, %out: memref<32xf32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf32>
      %narrow = arith.truncf %x_i : f32 to f8E5M2
      %wide = arith.extf %narrow : f8E5M2 to f32
      memref.store %wide, %out[%i] : memref<32xf32>
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xf32>
    %out = gpu.alloc host_shared () : memref<32xf32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %f = arith.sitofp %k : i32 to f32
      %factor = arith.constant 1.3125 : f32
      %v = arith.mulf %f, %factor : f32
      memref.store %v, %x[%i] : memref<32xf32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xf32>, %out : memref<32xf32>)
    %print_out = memref.cast %out : memref<32xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<32xf32>
    gpu.dealloc %out : memref<32xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [0, 1.25, 2.5, 4, 5, 7, 8, 10, 10, 12, 14, 14, 16, 16, 20, 20, 20, 24, 24, 24, 28, 28, 28, 32, 32, 32, 32, 32, 40, 40, 40, 40]
