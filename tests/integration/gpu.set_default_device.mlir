// gpu.set_default_device: sets the device of the calling thread. GPUBUILD_TRACE=1
// shows it; the CPU stands in for any number.
// BREAK: /gpu.set_default_device/d
// TRACE: chosen by the program (device 0)
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
    %first = arith.constant 0 : i32
    gpu.set_default_device %first
    %x = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %x[%i] : memref<16xi32>
    }
    gpu.launch_func @kernels::@double
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
    %print_x = memref.cast %x : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]
