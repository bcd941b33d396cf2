// gpu.dynamic_shared_memory: workgroup memory whose size the launch sets; it holds two arrays.
// BREAK: s/%second = arith.constant 128/%second = arith.constant 64/
// BREAK: /gpu.barrier/d
!bytes = memref<?xi8, #gpu.address_space<workgroup>>
!shared = memref<32xi32, #gpu.address_space<workgroup>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c32 = arith.constant 32 : index
      %i = gpu.thread_id x
      %second = arith.constant 128 : index
      %all = gpu.dynamic_shared_memory : !bytes
      %numbers = memref.view %all[%c0][] : !bytes to !shared
      %squares = memref.view %all[%second][] : !bytes to !shared
      %mine = memref.load %x[%i] : memref<32xi32>
      %square = arith.muli %mine, %mine : i32
      memref.store %mine, %numbers[%i] : !shared
      memref.store %square, %squares[%i] : !shared
      gpu.barrier
      // The next one's number and square.
      %next = arith.addi %i, %c1 : index
      %around = arith.remui %next, %c32 : index
      %its = memref.load %numbers[%around] : !shared
      %its_square = memref.load %squares[%around] : !shared
      %sum = arith.addi %its, %its_square : i32
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
      %thirteen = arith.constant 13 : i32
      %modulus = arith.constant 32 : i32
      %product = arith.muli %k, %thirteen : i32
      %v = arith.remsi %product, %modulus : i32
      memref.store %v, %x[%i] : memref<32xi32>
    }
    %bytes = arith.constant 256 : i32
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        dynamic_shared_memory_size %bytes
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
// CHECK-NEXT: [182, 702, 56, 420, 2, 210, 756, 72, 462, 6, 240, 812, 90, 506, 12, 272, 870, 110, 552, 20, 306, 930, 132, 600, 30, 342, 992, 156, 650, 42, 380, 0]
