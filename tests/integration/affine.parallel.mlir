// affine.parallel: a loop nest in a kernel whose iterations do not depend on each other; a matrix is
// transposed.
// BREAK: s/affine.load %x[%row, %column]/affine.load %x[%column, %row]/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<4x4xi32>, %out: memref<4x4xi32>) kernel {
      affine.parallel (%row, %column) = (0, 0) to (4, 4) {
        %value = affine.load %x[%row, %column] : memref<4x4xi32>
        affine.store %value, %out[%column, %row] : memref<4x4xi32>
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %x = gpu.alloc host_shared () : memref<4x4xi32>
    %out = gpu.alloc host_shared () : memref<4x4xi32>
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c4 step %c1 {
        %row = arith.muli %i, %c4 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %v = arith.muli %k, %k : i32
        memref.store %v, %x[%i, %j] : memref<4x4xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%x : memref<4x4xi32>, %out : memref<4x4xi32>)
    %print_out = memref.cast %out : memref<4x4xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<4x4xi32>
    gpu.dealloc %out : memref<4x4xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}0, 16, 64, 144],
// CHECK-NEXT: [1, 25, 81, 169],
// CHECK-NEXT: [4, 36, 100, 196],
// CHECK-NEXT: [9, 49, 121, 225]]
