// math.exp: powers of e.
// BREAK: s/math.exp/math.exp2/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf64>, %out: memref<32xf64>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf64>
      %r = math.exp %x_i : f64
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
      %scaled = arith.mulf %wide, %half : f64
      %five = arith.constant 5.0 : f64
      %v = arith.subf %scaled, %five : f64
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
// CHECK-NEXT: [0.00673795, 0.011109, 0.0183156, 0.0301974, 0.0497871, 0.082085, 0.135335, 0.22313, 0.367879, 0.606531, 1, 1.64872, 2.71828, 4.48169, 7.38906, 12.1825, 20.0855, 33.1155, 54.5982, 90.0171, 148.413, 244.692, 403.429, 665.142, 1096.63, 1808.04, 2980.96, 4914.77, 8103.08, 13359.7, 22026.5, 36315.5]
