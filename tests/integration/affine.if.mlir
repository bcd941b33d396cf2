// affine.if: a condition of affine expressions: the inside of a triangle.
// BREAK: s/d0 - d1 - 1 >= 0/d0 - d1 >= 0/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<5x5xi32>) kernel {
      %column = gpu.thread_id x
      %row = gpu.thread_id y
      affine.if affine_set<(d0, d1) : (d0 - d1 - 1 >= 0)>(%row, %column) {
        %minus = arith.constant -1 : i32
        memref.store %minus, %x[%row, %column] : memref<5x5xi32>
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %x = gpu.alloc host_shared () : memref<5x5xi32>
    scf.for %i = %c0 to %c5 step %c1 {
      scf.for %j = %c0 to %c5 step %c1 {
        %row = arith.muli %i, %c5 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        memref.store %k, %x[%i, %j] : memref<5x5xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c5, %c5, %c1)
        args(%x : memref<5x5xi32>)
    %print_x = memref.cast %x : memref<5x5xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<5x5xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [5, 5] strides = [5, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3, 4],
// CHECK-NEXT: [-1, 6, 7, 8, 9],
// CHECK-NEXT: [-1, -1, 12, 13, 14],
// CHECK-NEXT: [-1, -1, -1, 18, 19],
// CHECK-NEXT: [-1, -1, -1, -1, 24]]
