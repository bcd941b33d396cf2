// memref.generic_atomic_rmw: a user-defined atomic operation: work-items multiply into one element.
// BREAK: s/arith.mulf %old, %mine/arith.addf %old, %mine/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<16xf32>, %out: memref<1xf32>) kernel {
      %c0 = arith.constant 0 : index
      %i = gpu.global_id x
      %mine = memref.load %x[%i] : memref<16xf32>
      %product = memref.generic_atomic_rmw %out[%c0] : memref<1xf32> {
      ^change(%old: f32):
        %new = arith.mulf %old, %mine : f32
        memref.atomic_yield %new : f32
      }
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %c16 = arith.constant 16 : index
    %x = gpu.alloc host_shared () : memref<16xf32>
    %out = gpu.alloc host_shared () : memref<1xf32>
    scf.for %i = %c0 to %c16 step %c1 {
      %k = arith.index_cast %i : index to i32
      %one = arith.constant 1 : i32
      %three = arith.constant 3 : i32
      %rest = arith.remsi %k, %three : i32
      %more = arith.addi %rest, %one : i32
      %v = arith.sitofp %more : i32 to f32
      memref.store %v, %x[%i] : memref<16xf32>
    }
    scf.for %i = %c0 to %c1 step %c1 {
      %v = arith.constant 1.0 : f32
      memref.store %v, %out[%i] : memref<1xf32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c2, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%x : memref<16xf32>, %out : memref<1xf32>)
    %print_out = memref.cast %out : memref<1xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<16xf32>
    gpu.dealloc %out : memref<1xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [1] strides = [1] data =
// CHECK-NEXT: [7776]
