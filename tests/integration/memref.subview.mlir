// memref.subview: every third column of every second row of a matrix, as a memref of its own.
// BREAK: s/%x[1, 2] [3, 2] [2, 3]/%x[1, 2] [3, 2] [2, 2]/;s/strided<[16, 3]/strided<[16, 2]/
!part = memref<3x2xi32, strided<[16, 3], offset: 10>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<8x8xi32>, %out: memref<3x2xi32>) kernel {
      %column = gpu.thread_id x
      %row = gpu.thread_id y
      %part = memref.subview %x[1, 2] [3, 2] [2, 3] : memref<8x8xi32> to !part
      %value = memref.load %part[%row, %column] : !part
      memref.store %value, %out[%row, %column] : memref<3x2xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc host_shared () : memref<8x8xi32>
    %out = gpu.alloc host_shared () : memref<3x2xi32>
    scf.for %i = %c0 to %c8 step %c1 {
      scf.for %j = %c0 to %c8 step %c1 {
        %row = arith.muli %i, %c8 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        memref.store %k, %x[%i, %j] : memref<8x8xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c2, %c3, %c1)
        args(%x : memref<8x8xi32>, %out : memref<3x2xi32>)
    %print_out = memref.cast %out : memref<3x2xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<8x8xi32>
    gpu.dealloc %out : memref<3x2xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [3, 2] strides = [2, 1] data =
// CHECK-NEXT: {{\[\[}}10, 13],
// CHECK-NEXT: [26, 29],
// CHECK-NEXT: [42, 45]]
