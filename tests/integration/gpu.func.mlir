// gpu.func: a kernel with memory of its workgroup and of each work-item, which calls a function of its
// module.
// BREAK: /gpu.barrier/d
// BREAK: s/call @twice(%first)/call @twice(%second)/
!shared = memref<32xi32, #gpu.address_space<workgroup>>
!own = memref<2xi32, #gpu.address_space<private>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    func.func @twice(%value: i32) -> i32 {
      %sum = arith.addi %value, %value : i32
      return %sum : i32
    }

    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>)
        workgroup(%shared: !shared)
        private(%own: !own) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c32 = arith.constant 32 : index
      %i = gpu.thread_id x
      %mine = memref.load %x[%i] : memref<32xi32>
      memref.store %mine, %shared[%i] : !shared
      gpu.barrier
      %last = arith.subi %c32, %c1 : index
      %from = arith.subi %last, %i : index
      %theirs = memref.load %shared[%from] : !shared
      memref.store %theirs, %own[%c0] : !own
      memref.store %mine, %own[%c1] : !own
      %first = memref.load %own[%c0] : !own
      %second = memref.load %own[%c1] : !own
      %doubled = func.call @twice(%first) : (i32) -> i32
      %sum = arith.addi %doubled, %second : i32
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
// CHECK-NEXT: [1922, 1801, 1686, 1577, 1474, 1377, 1286, 1201, 1122, 1049, 982, 921, 866, 817, 774, 737, 706, 681, 662, 649, 642, 641, 646, 657, 674, 697, 726, 761, 802, 849, 902, 961]
