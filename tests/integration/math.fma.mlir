// math.fma: a product and a sum, rounded once: with two roundings this would be 0.
// BREAK: s/math.fma %x_i, %x_i, %minus/arith.addf %square, %minus/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>, %out: memref<32xf32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf32>
      %square = arith.mulf %x_i, %x_i : f32
      %minus = arith.negf %square : f32
      %r = math.fma %x_i, %x_i, %minus : f32
      memref.store %r, %out[%i] : memref<32xf32>
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
      %three = arith.constant 3.0 : f32
      %v = arith.divf %f, %three : f32
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
// CHECK-NEXT: [0, -1.65568e-09, -6.62274e-09, 0, -2.6491e-08, -2.6491e-08, 0, -1.05964e-07, -1.05964e-07, 0, -1.05964e-07, 3.70873e-07, 0, 5.29819e-07, -4.23855e-07, 0, -4.23855e-07, -1.37753e-06, 0, -1.37753e-06, -4.23855e-07, 0, 1.48349e-06, 5.29819e-07, 0, -3.60277e-06, 2.11928e-06, 0, -1.69542e-06, 2.11928e-07, 0, 2.11928e-07]
