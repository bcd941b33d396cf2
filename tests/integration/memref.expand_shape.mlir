// memref.expand_shape: a row of numbers seen as a matrix; no number moves.
// BREAK: s/%matrix[%row, %column]/%matrix[%column, %row]/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<16xi32>, %out: memref<4x4xi32>) kernel {
      %column = gpu.thread_id x
      %row = gpu.thread_id y
      %matrix = memref.expand_shape %x [[0, 1]] output_shape [4, 4]
          : memref<16xi32> into memref<4x4xi32>
      %value = memref.load %matrix[%row, %column] : memref<4x4xi32>
      memref.store %value, %out[%row, %column] : memref<4x4xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    %out = gpu.alloc host_shared () : memref<4x4xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<16xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c4, %c4, %c1)
        args(%x : memref<16xi32>, %out : memref<4x4xi32>)
    %print_out = memref.cast %out : memref<4x4xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    gpu.dealloc %out : memref<4x4xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 4, 9],
// CHECK-NEXT: [16, 25, 36, 49],
// CHECK-NEXT: [64, 81, 100, 121],
// CHECK-NEXT: [144, 169, 196, 225]]
