// gpu.grid_dim: the number of workgroups; here the stride of each of them.
// BREAK: s/grid_dim x/grid_dim y/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%out: memref<20xi32>) kernel {
      %c20 = arith.constant 20 : index
      %ten = arith.constant 10 : i32
      // Workgroup b takes the places b, b + grid_dim, b + 2 * grid_dim, ...
      %block = gpu.block_id x
      %blocks = gpu.grid_dim x
      %number = arith.index_cast %block : index to i32
      scf.for %i = %block to %c20 step %blocks {
        %old = memref.load %out[%i] : memref<20xi32>
        %tens = arith.muli %old, %ten : i32
        %new = arith.addi %tens, %number : i32
        memref.store %new, %out[%i] : memref<20xi32>
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c20 = arith.constant 20 : index
    %out = gpu.alloc host_shared () : memref<20xi32>
    scf.for %i = %c0 to %c20 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %out[%i] : memref<20xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c3, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%out : memref<20xi32>)
    %print_out = memref.cast %out : memref<20xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %out : memref<20xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [20] strides = [1] data =
// CHECK-NEXT: [0, 11, 22, 30, 41, 52, 60, 71, 82, 90, 101, 112, 120, 131, 142, 150, 161, 172, 180, 191]
