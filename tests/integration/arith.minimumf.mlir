// arith.minimumf: the smaller of two floats; NaN, if one of them is.
// BREAK: s/arith.minimumf/arith.minnumf/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>, %out: memref<32xf32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf32>
      // The square root of a negative number is NaN.
      %root = math.sqrt %x_i : f32
      %two = arith.constant 2.0 : f32
      %r = arith.minimumf %root, %two : f32
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
      %ten = arith.constant 10.0 : f32
      %half = arith.constant 0.5 : f32
      %moved = arith.subf %f, %ten : f32
      %v = arith.mulf %moved, %half : f32
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
// CHECK-NEXT: [{{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, {{-?}}nan, 0, 0.707107, 1, 1.22474, 1.41421, 1.58114, 1.73205, 1.87083, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
