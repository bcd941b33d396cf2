// math.sin: sines.
// BREAK: s/math.sin/math.cos/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf64>, %out: memref<32xf64>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf64>
      %r = math.sin %x_i : f64
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
// CHECK-NEXT: [0, 0.479426, 0.841471, 0.997495, 0.909297, 0.598472, 0.14112, -0.350783, -0.756802, -0.97753, -0.958924, -0.70554, -0.279415, 0.21512, 0.656987, 0.938, 0.989358, 0.798487, 0.412118, -0.0751511, -0.544021, -0.879696, -0.99999, -0.875452, -0.536573, -0.0663219, 0.420167, 0.803784, 0.990607, 0.934895, 0.650288, 0.206467]
