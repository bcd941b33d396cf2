// math.powf: powers with any exponent.
// BREAK: s/%x_i, %exponent/%exponent, %x_i/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf64>, %out: memref<32xf64>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf64>
      %exponent = arith.constant 1.25 : f64
      %r = math.powf %x_i, %exponent : f64
      memref.store %r, %out[%i] : memref<32xf64>
      gpu.return
    }
  }

  func.func private @printMemrefF64(memref<*xf64>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xf64>
    %out = gpu.alloc host_shared () : memref<32xf64>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %wide = arith.sitofp %k : i32 to f64
      %half = arith.constant 0.5 : f64
      %v = arith.mulf %wide, %half : f64
      memref.store %v, %x[%i] : memref<32xf64>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xf64>, %out : memref<32xf64>)
    %print_out = memref.cast %out : memref<32xf64> to memref<*xf64>
    call @printMemrefF64(%print_out) : (memref<*xf64>) -> ()
    gpu.dealloc %x : memref<32xf64>
    gpu.dealloc %out : memref<32xf64>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [0, 0.420448, 1, 1.66002, 2.37841, 3.14358, 3.94822, 4.78724, 5.65685, 6.55414, 7.47674, 8.42274, 9.39051, 10.3787, 11.386, 12.4116, 13.4543, 14.5136, 15.5885, 16.6784, 17.7828, 18.9011, 20.0328, 21.1774, 22.3345, 23.5038, 24.6848, 25.8772, 27.0807, 28.295, 29.5198, 30.7549]
