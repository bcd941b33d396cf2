// gpu.memset: fills memory of the device, and one row of a matrix, with a number.
// BREAK: s/gpu.memset %row, %seven/gpu.memset %row, %three/
// BREAK: s/%device[2, 0]/%device[1, 0]/;s/offset: 12/offset: 6/
!row = memref<6xi32, strided<[1], offset: 12>>
module attributes {gpu.container_module} {
  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %three = arith.constant 3 : i32
    %seven = arith.constant 7 : i32
    %device = gpu.alloc () : memref<4x6xi32>
    %row = memref.subview %device[2, 0] [1, 6] [1, 1] : memref<4x6xi32> to !row
    %host = memref.alloc() : memref<4x6xi32>
    gpu.memset %device, %three : memref<4x6xi32>, i32
    gpu.memset %row, %seven : !row, i32
    gpu.memcpy %host, %device : memref<4x6xi32>, memref<4x6xi32>
    %print_host = memref.cast %host : memref<4x6xi32> to memref<*xi32>
    call @printMemrefI32(%print_host) : (memref<*xi32>) -> ()
    gpu.dealloc %device : memref<4x6xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 6] strides = [6, 1] data =
// CHECK-NEXT: {{\[\[}}3, 3, 3, 3, 3, 3],
// CHECK-NEXT: [3, 3, 3, 3, 3, 3],
// CHECK-NEXT: [7, 7, 7, 7, 7, 7],
// CHECK-NEXT: [3, 3, 3, 3, 3, 3]]
