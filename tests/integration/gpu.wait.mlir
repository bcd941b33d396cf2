// gpu.wait: begins chains of asynchronous operations, brings several together, and lets the host wait.
// GPUBUILD_TRACE=1 shows which stream waits for which.
// BREAK: s/gpu.wait async [%doubled, %moved]/gpu.wait async [%doubled]/
// TRACE: launch kernels::double {{.*}} stream [[FIRST:0x[0-9a-f]+]]
// TRACE: event [[DOUBLED:0x[0-9a-f]+]] recorded on stream [[FIRST]]
// TRACE: launch kernels::move {{.*}} stream [[SECOND:0x[0-9a-f]+]]
// TRACE: event [[MOVED:0x[0-9a-f]+]] recorded on stream [[SECOND]]
// TRACE: stream [[THIRD:0x[0-9a-f]+]] waits for event [[DOUBLED]]
// TRACE: stream [[THIRD]] waits for event [[MOVED]]
// TRACE: launch kernels::add {{.*}} stream [[THIRD]]
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @double(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %value : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
    gpu.func @move(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %hundred = arith.constant 100 : i32
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %hundred : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
    gpu.func @add(%x: memref<16xi32>, %y: memref<16xi32>, %out: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %a = memref.load %x[%i] : memref<16xi32>
      %b = memref.load %y[%i] : memref<16xi32>
      %sum = arith.addi %a, %b : i32
      memref.store %sum, %out[%i] : memref<16xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    %y = gpu.alloc host_shared () : memref<16xi32>
    %out = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      %square = arith.muli %k, %k : i32
      memref.store %k, %x[%i] : memref<16xi32>
      memref.store %square, %y[%i] : memref<16xi32>
    }
    // Two chains that run beside each other, and a third that comes after both.
    %first = gpu.wait async
    %doubled = gpu.launch_func async [%first] @kernels::@double
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1)
        args(%x : memref<16xi32>)
    %second = gpu.wait async
    %moved = gpu.launch_func async [%second] @kernels::@move
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1)
        args(%y : memref<16xi32>)
    %both = gpu.wait async [%doubled, %moved]
    %sum = gpu.launch_func async [%both] @kernels::@add
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1)
        args(%x : memref<16xi32>, %y : memref<16xi32>, %out : memref<16xi32>)
    gpu.wait [%sum]
    %print_out = memref.cast %out : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    gpu.dealloc %y : memref<16xi32>
    gpu.dealloc %out : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [100, 103, 108, 115, 124, 135, 148, 163, 180, 199, 220, 243, 268, 295, 324, 355]
