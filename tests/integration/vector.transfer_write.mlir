// vector.transfer_write: four numbers at once, into a column of a matrix; elements outside are not written.
// BREAK: s/(d0, d1) -> (d0)/(d0, d1) -> (d1)/
// BREAK: s/%out[%c2, %t]/%out[%t, %c2]/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<8xi32>, %out: memref<5x5xi32>) kernel {
      %c2 = arith.constant 2 : index
      %t = gpu.thread_id x
      %nine = arith.constant 9 : i32
      %four = vector.transfer_read %x[%t], %nine : memref<8xi32>, vector<4xi32>
      vector.transfer_write %four, %out[%c2, %t] {permutation_map = affine_map<(d0, d1) -> (d0)>}
          : vector<4xi32>, memref<5x5xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc host_shared () : memref<8xi32>
    %out = gpu.alloc host_shared () : memref<5x5xi32>
    scf.for %i = %c0 to %c8 step %c1 {
      %k = arith.index_cast %i : index to i32
      %one = arith.constant 1 : i32
      %v = arith.addi %k, %one : i32
      memref.store %v, %x[%i] : memref<8xi32>
    }
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c5 step %c1 {
      scf.for %j = %c0 to %c5 step %c1 {
        memref.store %zero, %out[%i, %j] : memref<5x5xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1)
        args(%x : memref<8xi32>, %out : memref<5x5xi32>)
    %print_out = memref.cast %out : memref<5x5xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<8xi32>
    gpu.dealloc %out : memref<5x5xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [5, 5] strides = [5, 1] data =
// CHECK-NEXT: {{\[\[}}0, 0, 0, 0, 0],
// CHECK-NEXT: [0, 0, 0, 0, 0],
// CHECK-NEXT: [1, 2, 3, 4, 0],
// CHECK-NEXT: [2, 3, 4, 5, 0],
// CHECK-NEXT: [3, 4, 5, 6, 0]]
