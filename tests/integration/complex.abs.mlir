// complex.abs: absolute values of complex numbers, which do not overflow on the way: of 3k + 4ki, both
// times ten to the 30th.
// BREAK: s/complex.abs %z : complex<f32>/complex.re %z : complex<f32>/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>, %out: memref<32xf32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf32>
      %scale = arith.constant 1.0e30 : f32
      %three = arith.constant 3.0e30 : f32
      %four = arith.constant 4.0e30 : f32
      %real = arith.mulf %x_i, %three : f32
      %imaginary = arith.mulf %x_i, %four : f32
      %z = complex.create %real, %imaginary : complex<f32>
      %length = complex.abs %z : complex<f32>
      %r = arith.divf %length, %scale : f32
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
      memref.store %f, %x[%i] : memref<32xf32>
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
// CHECK-NEXT: [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 105, 110, 115, 120, 125, 130, 135, 140, 145, 150, 155]
