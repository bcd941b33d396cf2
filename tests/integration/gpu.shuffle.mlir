// gpu.shuffle: every work-item takes the number of another one of its subgroup. Four modes say of which
// one: xor, up, down, idx.
// BREAK: s/shuffle xor/shuffle up/
// BREAK: s/%width = arith.constant 32/%width = arith.constant 4/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %distance = arith.constant 5 : i32
      %width = arith.constant 32 : i32
      %mine = memref.load %x[%i] : memref<32xi32>
      %theirs, %valid = gpu.shuffle xor %mine, %distance, %width : i32
      %zero = arith.constant 0 : i32
      %got = arith.select %valid, %theirs, %zero : i32
      memref.store %got, %out[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xi32>
    %out = gpu.alloc host_shared () : memref<32xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<32xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xi32>, %out : memref<32xi32>)
    %print_out = memref.cast %out : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<32xi32>
    gpu.dealloc %out : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [25, 16, 49, 36, 1, 0, 9, 4, 169, 144, 225, 196, 81, 64, 121, 100, 441, 400, 529, 484, 289, 256, 361, 324, 841, 784, 961, 900, 625, 576, 729, 676]
