// gpu.host_register: lets kernels use host memory without copies. GPUBUILD_TRACE=1
// shows it; the CPU has nothing to do for it.
// BREAK: /gpu.host_register/d
// TRACE: register 64 bytes of host memory at [[X:0x[0-9a-f]+]]
// TRACE: launch kernels::double
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
    %any = memref.cast %x : memref<16xi32> to memref<*xi32>
    gpu.host_register %any : memref<*xi32>
    gpu.launch_func @kernels::@double
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
    gpu.host_unregister %any : memref<*xi32>
    call @printMemrefI32(%any) : (memref<*xi32>) -> ()
    memref.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, 2, 8, 18, 32, 50, 72, 98, 128, 162, 200, 242, 288, 338, 392, 450]
