// memref.copy: a kernel's copy of one row of a matrix to another, selected by views.
// BREAK: s/%x[1, 0]/%x[2, 0]/;s/offset: 6>/offset: 12>/
!second = memref<6xi32, strided<[1], offset: 6>>
!last = memref<6xi32, strided<[1], offset: 18>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<4x6xi32>) kernel {
      %from = memref.subview %x[1, 0] [1, 6] [1, 1] : memref<4x6xi32> to !second
      %to = memref.subview %x[3, 0] [1, 6] [1, 1] : memref<4x6xi32> to !last
      memref.copy %from, %to : !second to !last
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c6 = arith.constant 6 : index
    %x = gpu.alloc host_shared () : memref<4x6xi32>
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c6 step %c1 {
        %row = arith.muli %i, %c6 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %v = arith.muli %k, %k : i32
        memref.store %v, %x[%i, %j] : memref<4x6xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%x : memref<4x6xi32>)
    %print_x = memref.cast %x : memref<4x6xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<4x6xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 6] strides = [6, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 4, 9, 16, 25],
// CHECK-NEXT: [36, 49, 64, 81, 100, 121],
// CHECK-NEXT: [144, 169, 196, 225, 256, 289],
// CHECK-NEXT: [36, 49, 64, 81, 100, 121]]
