// affine.for: loops with bounds that are affine: the sum of a triangle's rows.
// BREAK: s/affine_map<(d0) -> (d0 + 1)>(%row)/affine_map<(d0) -> (d0)>(%row)/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<8x8xi32>, %out: memref<8xi32>) kernel {
      %row = gpu.thread_id x
      %zero = arith.constant 0 : i32
      %sum = affine.for %column = 0 to affine_map<(d0) -> (d0 + 1)>(%row) iter_args(%sofar = %zero) -> (i32) {
        %value = memref.load %x[%row, %column] : memref<8x8xi32>
        %next = arith.addi %sofar, %value : i32
        affine.yield %next : i32
      }
      memref.store %sum, %out[%row] : memref<8xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %x = gpu.alloc host_shared () : memref<8x8xi32>
    %out = gpu.alloc host_shared () : memref<8xi32>
    scf.for %i = %c0 to %c8 step %c1 {
      scf.for %j = %c0 to %c8 step %c1 {
        %row = arith.muli %i, %c8 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        memref.store %k, %x[%i, %j] : memref<8x8xi32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<8x8xi32>, %out : memref<8xi32>)
    %print_out = memref.cast %out : memref<8xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<8x8xi32>
    gpu.dealloc %out : memref<8xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [8] strides = [1] data =
// CHECK-NEXT: [0, 17, 51, 102, 170, 255, 357, 476]
