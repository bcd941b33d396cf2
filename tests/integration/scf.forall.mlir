// scf.forall: a loop whose iterations do not depend on each other, in one work-item.
// BREAK: s/arith.muli %row, %column/arith.addi %row, %column/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<4x5xi32>) kernel {
      scf.forall (%row, %column) in (4, 5) {
        %product = arith.muli %row, %column : index
        %value = arith.index_cast %product : index to i32
        memref.store %value, %out[%row, %column] : memref<4x5xi32>
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %out = gpu.alloc host_shared () : memref<4x5xi32>
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%out : memref<4x5xi32>)
    %print_out = memref.cast %out : memref<4x5xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<4x5xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 5] strides = [5, 1] data =
// CHECK-NEXT: {{\[\[}}0, 0, 0, 0, 0],
// CHECK-NEXT: [0, 1, 2, 3, 4],
// CHECK-NEXT: [0, 2, 4, 6, 8],
// CHECK-NEXT: [0, 3, 6, 9, 12]]
