// scf.reduce: what the iterations of a parallel loop give is brought together: here the largest number, by
// each work-item of its own row.
// BREAK: s/arith.maxsi %l, %r/arith.minsi %l, %r/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<4x8xi32>, %out: memref<4xi32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %row = gpu.thread_id x
      %least = arith.constant -1 : i32
      %largest = scf.parallel (%column) = (%c0) to (%c8) step (%c1) init (%least) -> i32 {
        %value = memref.load %x[%row, %column] : memref<4x8xi32>
        scf.reduce(%value : i32) {
        ^combine(%l: i32, %r: i32):
          %more = arith.maxsi %l, %r : i32
          scf.reduce.return %more : i32
        }
      }
      memref.store %largest, %out[%row] : memref<4xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc host_shared () : memref<4x8xi32>
    %out = gpu.alloc host_shared () : memref<4xi32>
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c8 step %c1 {
        %row = arith.muli %i, %c8 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %thirteen = arith.constant 13 : i32
        %modulus = arith.constant 32 : i32
        %product = arith.muli %k, %thirteen : i32
        %v = arith.remsi %product, %modulus : i32
        memref.store %v, %x[%i, %j] : memref<4x8xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c4, %c1, %c1)
        args(%x : memref<4x8xi32>, %out : memref<4xi32>)
    %print_out = memref.cast %out : memref<4xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<4x8xi32>
    gpu.dealloc %out : memref<4xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [4] strides = [1] data =
// CHECK-NEXT: [27, 28, 30, 31]
