// gpu.yield: what the region of a gpu.all_reduce gives: any operation whose order does not matter.
// BREAK: s/gpu.yield %further/gpu.yield %a/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<50xi32>, %out: memref<50xi32>) kernel {
      // The number that is furthest from zero.
      %i = gpu.thread_id x
      %mine = memref.load %x[%i] : memref<50xi32>
      %furthest = gpu.all_reduce %mine uniform {
      ^combine(%a: i32, %b: i32):
        %far_a = math.absi %a : i32
        %far_b = math.absi %b : i32
        %is_a = arith.cmpi sgt, %far_a, %far_b : i32
        %further = arith.select %is_a, %a, %b : i32
        gpu.yield %further : i32
      } : (i32) -> i32
      memref.store %furthest, %out[%i] : memref<50xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c50 = arith.constant 50 : index
    %x = gpu.alloc host_shared () : memref<50xi32>
    %out = gpu.alloc host_shared () : memref<50xi32>
    scf.for %i = %c0 to %c50 step %c1 {
      %k = arith.index_cast %i : index to i32
      %thirty = arith.constant 30 : i32
      %moved = arith.subi %k, %thirty : i32
      %v = arith.muli %moved, %k : i32
      memref.store %v, %x[%i] : memref<50xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c50, %c1, %c1)
        args(%x : memref<50xi32>, %out : memref<50xi32>)
    %print_out = memref.cast %out : memref<50xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<50xi32>
    gpu.dealloc %out : memref<50xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [50] strides = [1] data =
// CHECK-NEXT: [931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931, 931]
