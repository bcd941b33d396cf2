// vector.transfer_read: four numbers at once, partly beyond the end: those are 9.
// BREAK: s/%nine = arith.constant 9/%nine = arith.constant 8/
// BREAK: s/%first = arith.muli %t, %c4/%first = arith.addi %t, %c4/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<18xi32>, %out: memref<5xi32>) kernel {
      %c4 = arith.constant 4 : index
      %t = gpu.thread_id x
      %nine = arith.constant 9 : i32
      %first = arith.muli %t, %c4 : index
      %four = vector.transfer_read %x[%first], %nine : memref<18xi32>, vector<4xi32>
      %sum = vector.reduction <add>, %four : vector<4xi32> into i32
      memref.store %sum, %out[%t] : memref<5xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c18 = arith.constant 18 : index
    %x = gpu.alloc host_shared () : memref<18xi32>
    %out = gpu.alloc host_shared () : memref<5xi32>
    scf.for %i = %c0 to %c18 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<18xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c5, %c1, %c1)
        args(%x : memref<18xi32>, %out : memref<5xi32>)
    %print_out = memref.cast %out : memref<5xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<18xi32>
    gpu.dealloc %out : memref<5xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [5] strides = [1] data =
// CHECK-NEXT: [14, 126, 366, 734, 563]
