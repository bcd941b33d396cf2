// gpu.terminator: ends the region of a gpu.launch. A region may have several blocks, and several of these
// may end it.
// BREAK: s/cond_br %even, ^skip, ^negate/cond_br %even, ^negate, ^skip/
module attributes {gpu.container_module} {
  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %c16, %sy = %c1, %sz = %c1) {
      %number = arith.index_cast %tx : index to i32
      memref.store %number, %x[%tx] : memref<16xi32>
      %rest = arith.remui %tx, %c2 : index
      %even = arith.cmpi eq, %rest, %c0 : index
      cf.cond_br %even, ^skip, ^negate
    ^skip:
      gpu.terminator
    ^negate:
      %zero = arith.constant 0 : i32
      %minus = arith.subi %zero, %number : i32
      memref.store %minus, %x[%tx] : memref<16xi32>
      gpu.terminator
    }
    %print_x = memref.cast %x : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, -1, 2, -3, 4, -5, 6, -7, 8, -9, 10, -11, 12, -13, 14, -15]
