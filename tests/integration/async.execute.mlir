// async.execute: a task of the async dialect, whose gpu operations form a stream of their own; the second
// task begins when the first is done.
// BREAK: s/@kernels::@double/@kernels::@fill/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @fill(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %three = arith.constant 3 : i32
      %k = arith.index_cast %i : index to i32
      %value = arith.muli %k, %three : i32
      memref.store %value, %x[%i] : memref<16xi32>
      gpu.return
    }
    gpu.func @double(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %value : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    %filled = async.execute {
      gpu.launch_func @kernels::@fill
          blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
      async.yield
    }
    %doubled = async.execute [%filled] {
      gpu.launch_func @kernels::@double
          blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
      async.yield
    }
    async.await %doubled : !async.token
    %print_x = memref.cast %x : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, 6, 12, 18, 24, 30, 36, 42, 48, 54, 60, 66, 72, 78, 84, 90]
