// complex.mul: products of complex numbers: (x, i)² for each x.
// BREAK: s/complex.mul %z, %z/complex.add %z, %z/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<8xf32>, %out: memref<2x8xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<8xf32>
      %k = arith.index_cast %i : index to i32
      %imaginary = arith.sitofp %k : i32 to f32
      %z = complex.create %x_i, %imaginary : complex<f32>
      %square = complex.mul %z, %z : complex<f32>
      %re = complex.re %square : complex<f32>
      %im = complex.im %square : complex<f32>
      memref.store %re, %out[%c0, %i] : memref<2x8xf32>
      memref.store %im, %out[%c1, %i] : memref<2x8xf32>
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc host_shared () : memref<8xf32>
    %out = gpu.alloc host_shared () : memref<2x8xf32>
    scf.for %i = %c0 to %c8 step %c1 {
      %k = arith.index_cast %i : index to i32
      %f = arith.sitofp %k : i32 to f32
      %ten = arith.constant 10.0 : f32
      %half = arith.constant 0.5 : f32
      %moved = arith.subf %f, %ten : f32
      %v = arith.mulf %moved, %half : f32
      memref.store %v, %x[%i] : memref<8xf32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8xf32>, %out : memref<2x8xf32>)
    %print_out = memref.cast %out : memref<2x8xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<8xf32>
    gpu.dealloc %out : memref<2x8xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [2, 8] strides = [8, 1] data =
// CHECK-NEXT: {{\[\[}}25, 19.25, 12, 3.25, -7, -18.75, -32, -46.75],
// CHECK-NEXT: [-0, -9, -16, -21, -24, -25, -24, -21]]
