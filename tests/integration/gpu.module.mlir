// gpu.module: kernels that are compiled together; a program may have many modules, and each its own
// kernels of the same name.
// BREAK: s/@second::@change/@first::@change/
module attributes {gpu.container_module} {
  gpu.module @first {
    gpu.func @change(%x: memref<16xi32>) kernel {
      %i = gpu.thread_id x
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %value : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
  }

  gpu.module @second {
    memref.global "private" constant @step : memref<1xi32> = dense<100>
    gpu.func @change(%x: memref<16xi32>) kernel {
      %c0 = arith.constant 0 : index
      %i = gpu.thread_id x
      %constant = memref.get_global @step : memref<1xi32>
      %step = memref.load %constant[%c0] : memref<1xi32>
      %value = memref.load %x[%i] : memref<16xi32>
      %sum = arith.addi %value, %step : i32
      memref.store %sum, %x[%i] : memref<16xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %x[%i] : memref<16xi32>
    }
    gpu.launch_func @first::@change
        blocks in (%c1, %c1, %c1) threads in (%c16, %c1, %c1) args(%x : memref<16xi32>)
    gpu.launch_func @second::@change
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
// CHECK-NEXT: [100, 102, 104, 106, 108, 110, 112, 114, 116, 118, 120, 122, 124, 126, 128, 130]
