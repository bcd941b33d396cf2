// scf.if: two paths to a value; work-items of a subgroup may take both.
// BREAK: s/cmpi slt/cmpi sge/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xi32>
      %limit = arith.constant 200 : i32
      %small = arith.cmpi slt, %x_i, %limit : i32
      %r = scf.if %small -> (i32) {
        %moved = arith.addi %x_i, %limit : i32
        scf.yield %moved : i32
      } else {
        %rest = arith.remsi %x_i, %limit : i32
        scf.yield %rest : i32
      }
      memref.store %r, %out[%i] : memref<32xi32>
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
// CHECK-NEXT: [200, 201, 204, 209, 216, 225, 236, 249, 264, 281, 300, 321, 344, 369, 396, 25, 56, 89, 124, 161, 0, 41, 84, 129, 176, 25, 76, 129, 184, 41, 100, 161]
