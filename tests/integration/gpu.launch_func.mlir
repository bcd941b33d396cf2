// gpu.launch_func: starts a kernel by name, in a grid of the host's choice, with dynamic workgroup memory;
// async launches do not wait; tokens order them.
// BREAK: s/blocks in (%c2, %c1, %c1)/blocks in (%c1, %c1, %c1)/
// BREAK: s/async [%t1] @kernels::@turn/async [%t1] @kernels::@keep/
!bytes = memref<?xi8, #gpu.address_space<workgroup>>
!shared = memref<8xi32, #gpu.address_space<workgroup>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    // Turns the 8 numbers of a workgroup around.
    gpu.func @turn(%x: memref<16xi32>) kernel {
      %c0 = arith.constant 0 : index
      %c7 = arith.constant 7 : index
      %i = gpu.global_id x
      %t = gpu.thread_id x
      %bytes = gpu.dynamic_shared_memory : !bytes
      %numbers = memref.view %bytes[%c0][] : !bytes to !shared
      %value = memref.load %x[%i] : memref<16xi32>
      memref.store %value, %numbers[%t] : !shared
      gpu.barrier
      %from = arith.subi %c7, %t : index
      %other = memref.load %numbers[%from] : !shared
      memref.store %other, %x[%i] : memref<16xi32>
      gpu.return
    }
    gpu.func @keep(%x: memref<16xi32>) kernel {
      gpu.return
    }
    gpu.func @double(%x: memref<16xi32>) kernel {
      %i = gpu.global_id x
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
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xi32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %x[%i] : memref<16xi32>
    }
    %bytes = arith.constant 32 : i32
    %t0 = gpu.wait async
    %t1 = gpu.launch_func async [%t0] @kernels::@double
        blocks in (%c2, %c1, %c1) threads in (%c8, %c1, %c1) args(%x : memref<16xi32>)
    %t2 = gpu.launch_func async [%t1] @kernels::@turn
        blocks in (%c2, %c1, %c1) threads in (%c8, %c1, %c1)
        dynamic_shared_memory_size %bytes args(%x : memref<16xi32>)
    gpu.wait [%t2]
    %print_x = memref.cast %x : memref<16xi32> to memref<*xi32>
    call @printMemrefI32(%print_x) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<16xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [16] strides = [1] data =
// CHECK-NEXT: [14, 12, 10, 8, 6, 4, 2, 0, 30, 28, 26, 24, 22, 20, 18, 16]
