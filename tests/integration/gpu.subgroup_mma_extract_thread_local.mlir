// gpu.subgroup_mma_extract_thread_local: a work-item reads the elements of a matrix that it holds; which
// ones these are depends on the device.
// BREAK: s/arith.mulf %held, %held/arith.addf %held, %held/
!sum = !gpu.mma_matrix<16x16xf32, "COp">
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<16x16xf32>, %out: memref<16x16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c256 = arith.constant 256 : index
      %size = gpu.subgroup_size : index
      %count = arith.divui %c256, %size : index
      %m = gpu.subgroup_mma_load_matrix %x[%c0, %c0] {leadDimension = 16 : index}
          : memref<16x16xf32> -> !sum
      %squares = scf.for %e = %c0 to %count step %c1 iter_args(%changed = %m) -> (!sum) {
        %held = gpu.subgroup_mma_extract_thread_local %changed[%e] : !sum -> f32
        %square = arith.mulf %held, %held : f32
        %next = gpu.subgroup_mma_insert_thread_local %square, %changed[%e]
            : f32, !sum -> !sum
        scf.yield %next : !sum
      }
      gpu.subgroup_mma_store_matrix %squares, %out[%c0, %c0] {leadDimension = 16 : index}
          : !sum, memref<16x16xf32>
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<16x16xf32>
    %out = gpu.alloc host_shared () : memref<16x16xf32>
    scf.for %i = %c0 to %c16 step %c1 {
      scf.for %j = %c0 to %c16 step %c1 {
        %row = arith.muli %i, %c16 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %f = arith.sitofp %k : i32 to f32
        %seven = arith.constant 7.0 : f32
        %v = arith.remf %f, %seven : f32
        memref.store %v, %x[%i, %j] : memref<16x16xf32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<16x16xf32>, %out : memref<16x16xf32>)
    %print_out = memref.cast %out : memref<16x16xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<16x16xf32>
    gpu.dealloc %out : memref<16x16xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [16, 16] strides = [16, 1] data =
// CHECK-NEXT: {{\[\[}}0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1],
// CHECK-NEXT: [4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9],
// CHECK-NEXT: [16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25],
// CHECK-NEXT: [36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0],
// CHECK-NEXT: [1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4],
// CHECK-NEXT: [9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16],
// CHECK-NEXT: [25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36],
// CHECK-NEXT: [0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1],
// CHECK-NEXT: [4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9],
// CHECK-NEXT: [16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25],
// CHECK-NEXT: [36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0],
// CHECK-NEXT: [1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4],
// CHECK-NEXT: [9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16],
// CHECK-NEXT: [25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36],
// CHECK-NEXT: [0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1],
// CHECK-NEXT: [4, 9, 16, 25, 36, 0, 1, 4, 9, 16, 25, 36, 0, 1, 4, 9]]
