// vector.maskedstore: the first numbers of a vector only: as many as the work-item's own number.
// BREAK: s/vector.create_mask %t/vector.create_mask %c4/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<20xi32>, %out: memref<20xi32>) kernel {
      %c4 = arith.constant 4 : index
      %t = gpu.thread_id x
      %first = arith.muli %t, %c4 : index
      %four = vector.load %x[%first] : memref<20xi32>, vector<4xi32>
      %mask = vector.create_mask %t : vector<4xi1>
      vector.maskedstore %out[%first], %mask, %four : memref<20xi32>, vector<4xi1>, vector<4xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c5 = arith.constant 5 : index
    %c20 = arith.constant 20 : index
    %x = gpu.alloc host_shared () : memref<20xi32>
    %out = gpu.alloc host_shared () : memref<20xi32>
    scf.for %i = %c0 to %c20 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<20xi32>
    }
    scf.for %i = %c0 to %c20 step %c1 {
      %v = arith.constant -1 : i32
      memref.store %v, %out[%i] : memref<20xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c5, %c1, %c1)
        args(%x : memref<20xi32>, %out : memref<20xi32>)
    %print_out = memref.cast %out : memref<20xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<20xi32>
    gpu.dealloc %out : memref<20xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [20] strides = [1] data =
// CHECK-NEXT: [-1, -1, -1, -1, 16, -1, -1, -1, 64, 81, -1, -1, 144, 169, 196, -1, 256, 289, 324, 361]
