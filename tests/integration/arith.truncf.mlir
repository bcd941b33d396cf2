// arith.truncf: floats become bf16, which has the 8 upper bits of their 24: the nearest such number, the
// even one of two.
// BREAK: s/bf16/f16/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xf32>, %out: memref<32xf32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xf32>
      %narrow = arith.truncf %x_i : f32 to bf16
      %wide = arith.extf %narrow : bf16 to f32
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
      %base = arith.constant 1000.0 : f32
      %v = arith.addf %base, %f : f32
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
// CHECK-NEXT: [1000, 1000, 1000, 1004, 1004, 1004, 1008, 1008, 1008, 1008, 1008, 1012, 1012, 1012, 1016, 1016, 1016, 1016, 1016, 1020, 1020, 1020, 1024, 1024, 1024, 1024, 1024, 1024, 1024, 1032, 1032, 1032]
