// gpu.dealloc: frees device memory when the kernel before it is done.
// GPUBUILD_TRACE=1 shows it.
// BREAK: s/gpu.dealloc async [%t4] %data : memref<16xi32>/gpu.wait async [%t4]/
// TRACE: allocate 64 bytes at [[DATA:0x[0-9a-f]+]]
// TRACE: launch kernels::double
// TRACE: free [[DATA]]
module attributes {gpu.container_module} {
  gpu.module @kernels {
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
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %x = memref.alloc() : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      %square = arith.muli %k, %k : i32
      memref.store %square, %x[%i] : memref<16xi32>
    }
    %start = gpu.wait async
    %data, %t1 = gpu.alloc async [%start] () : memref<16xi32>
    %t2 = gpu.memcpy async [%t1] %data, %x : memref<16xi32>, memref<16xi32>
    %t3 = gpu.launch_func async [%t2] @kernels::@double
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%data : memref<16xi32>)
    %t4 = gpu.memcpy async [%t3] %x, %data : memref<16xi32>, memref<16xi32>
    %t5 = gpu.dealloc async [%t4] %data : memref<16xi32>
    gpu.wait [%t5]
    %print_x = memref.cast %x : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    memref.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, 2, 8, 18, 32, 50, 72, 98, 128, 162, 200, 242, 288, 338, 392, 450]
