// gpu.return: ends a work-item; a kernel may have several.
// BREAK: s/cond_br %negative, ^skip, ^go/cond_br %negative, ^go, ^skip/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>) kernel {
        %i = gpu.thread_id x
        %zero = arith.constant 0.0 : f32
        %value = memref.load %x[%i] : memref<32xf32>
        %negative = arith.cmpf olt, %value, %zero : f32
        cf.cond_br %negative, ^skip, ^go
      ^skip:
        gpu.return
      ^go:
        %root = math.sqrt %value : f32
        memref.store %root, %x[%i] : memref<32xf32>
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xf32>
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
        args(%x : memref<32xf32>)
    %print_x = memref.cast %x : memref<32xf32> to memref<*xf32>
    call @printMemrefF32(%print_x) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<32xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [-5, -4.5, -4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.707107, 1, 1.22474, 1.41421, 1.58114, 1.73205, 1.87083, 2, 2.12132, 2.23607, 2.34521, 2.44949, 2.54951, 2.64575, 2.73861, 2.82843, 2.91548, 3, 3.08221, 3.16228, 3.24037]
