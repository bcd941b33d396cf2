// scf.parallel: a parallel loop of the host, without a word of GPUs. The passes that targets.yaml names
// make it a kernel.
// BREAK: s/arith.muli %i, %c10/arith.muli %j, %c10/
module attributes {gpu.container_module} {
  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c8 = arith.constant 8 : index
    %c10 = arith.constant 10 : index
    %x = gpu.alloc host_shared () : memref<6x8xi32>
    scf.parallel (%i, %j) = (%c0, %c0) to (%c6, %c8) step (%c1, %c1) {
      %tens = arith.muli %i, %c10 : index
      %sum = arith.addi %tens, %j : index
      %value = arith.index_cast %sum : index to i32
      memref.store %value, %x[%i, %j] : memref<6x8xi32>
    }
    %print_x = memref.cast %x : memref<6x8xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<6x8xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [6, 8] strides = [8, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 2, 3, 4, 5, 6, 7],
// CHECK-NEXT: [10, 11, 12, 13, 14, 15, 16, 17],
// CHECK-NEXT: [20, 21, 22, 23, 24, 25, 26, 27],
// CHECK-NEXT: [30, 31, 32, 33, 34, 35, 36, 37],
// CHECK-NEXT: [40, 41, 42, 43, 44, 45, 46, 47],
// CHECK-NEXT: [50, 51, 52, 53, 54, 55, 56, 57]]
