// gpu.subgroup_reduce: a sum over clusters of 8 work-items with stride 2, returned to each of them.
// BREAK: s/size = 8/size = 4/
// BREAK: s/stride = 2/stride = 1/
// BREAK: s/subgroup_reduce add/subgroup_reduce maxsi/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %mine = memref.load %x[%i] : memref<32xi32>
      %sum = gpu.subgroup_reduce add %mine cluster(size = 8, stride = 2) : (i32) -> i32
      memref.store %sum, %out[%i] : memref<32xi32>
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
// CHECK-NEXT: [560, 680, 560, 680, 560, 680, 560, 680, 560, 680, 560, 680, 560, 680, 560, 680, 4400, 4776, 4400, 4776, 4400, 4776, 4400, 4776, 4400, 4776, 4400, 4776, 4400, 4776, 4400, 4776]
