// memref.atomic_rmw: counts how often each digit occurs: many work-items add to one place, also of
// different workgroups.
// BREAK: s/gpu.global_id x/gpu.thread_id x/
// BREAK: s/atomic_rmw addi/atomic_rmw maxs/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<256xi32>, %counts: memref<10xi32>) kernel {
      %i = gpu.global_id x
      %ten = arith.constant 10 : i32
      %one = arith.constant 1 : i32
      %value = memref.load %x[%i] : memref<256xi32>
      %digit = arith.remsi %value, %ten : i32
      %place = arith.index_cast %digit : i32 to index
      %before = memref.atomic_rmw addi %one, %counts[%place] : (i32, memref<10xi32>) -> i32
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c10 = arith.constant 10 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %x = gpu.alloc host_shared () : memref<256xi32>
    %counts = gpu.alloc host_shared () : memref<10xi32>
    scf.for %i = %c0 to %c256 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %x[%i] : memref<256xi32>
    }
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c10 step %c1 {
      memref.store %zero, %counts[%i] : memref<10xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c4, %c1, %c1) threads in (%c64, %c1, %c1)
        args(%x : memref<256xi32>, %counts : memref<10xi32>)
    %print_counts = memref.cast %counts : memref<10xi32> to memref<*xi32>
    call @printMemrefI32(%print_counts) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<256xi32>
    gpu.dealloc %counts : memref<10xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [10] strides = [1] data =
// CHECK-NEXT: [26, 51, 0, 0, 51, 26, 51, 0, 0, 51]
