// gpu.memcpy: copies between host and device, and of a part of a matrix.
// BREAK: s/gpu.memcpy %device, %x/gpu.memcpy %device, %zeros/
// BREAK: s/%device[0, 2]/%device[0, 1]/;s/offset: 2>/offset: 1>/
!column = memref<4xi32, strided<[4], offset: 2>>
module attributes {gpu.container_module} {
  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %x = memref.alloc() : memref<4x4xi32>
    %zeros = memref.alloc() : memref<4x4xi32>
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c4 step %c1 {
        %row = arith.muli %i, %c4 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        memref.store %k, %x[%i, %j] : memref<4x4xi32>
        memref.store %zero, %zeros[%i, %j] : memref<4x4xi32>
      }
    }
    %device = gpu.alloc () : memref<4x4xi32>
    %back = memref.alloc() : memref<4x4xi32>
    gpu.memcpy %device, %x : memref<4x4xi32>, memref<4x4xi32>
    gpu.memcpy %back, %device : memref<4x4xi32>, memref<4x4xi32>
    %print_back = memref.cast %back : memref<4x4xi32> to memref<*xi32>
    call @printMemrefI32(%print_back) : (memref<*xi32>) -> ()

    // The third column alone.
    %device_column = memref.subview %device[0, 2] [4, 1] [1, 1]
        : memref<4x4xi32> to !column
    %column = memref.alloc() : memref<4xi32>
    gpu.memcpy %column, %device_column : memref<4xi32>, !column
    %print_column = memref.cast %column : memref<4xi32> to memref<*xi32>
    call @printMemrefI32(%print_column) : (memref<*xi32>) -> ()
    gpu.dealloc %device : memref<4x4xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3],
// CHECK-NEXT: [4, 5, 6, 7],
// CHECK-NEXT: [8, 9, 10, 11],
// CHECK-NEXT: [12, 13, 14, 15]]
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [4] strides = [1] data =
// CHECK-NEXT: [2, 6, 10, 14]
