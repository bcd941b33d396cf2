// gpu.subgroup_mma_elementwise: an operation on each element of matrices, such as an activation behind a
// product.
// BREAK: s/elementwise maxf/elementwise minf/
// BREAK: s/elementwise subf/elementwise addf/
!sum = !gpu.mma_matrix<16x16xf32, "COp">
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<16x16xf32>, %out: memref<16x16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %three = arith.constant 3.0 : f32
      %zero = arith.constant 0.0 : f32
      %m = gpu.subgroup_mma_load_matrix %x[%c0, %c0] {leadDimension = 16 : index}
          : memref<16x16xf32> -> !sum
      %threes = gpu.subgroup_mma_constant_matrix %three : !sum
      %zeros = gpu.subgroup_mma_constant_matrix %zero : !sum
      %moved = gpu.subgroup_mma_elementwise subf %m, %threes : (!sum, !sum) -> !sum
      %positive = gpu.subgroup_mma_elementwise maxf %moved, %zeros : (!sum, !sum) -> !sum
      gpu.subgroup_mma_store_matrix %positive, %out[%c0, %c0] {leadDimension = 16 : index}
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
// CHECK-NEXT: {{\[\[}}0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0],
// CHECK-NEXT: [0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0],
// CHECK-NEXT: [1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2],
// CHECK-NEXT: [3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0],
// CHECK-NEXT: [0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0],
// CHECK-NEXT: [0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1],
// CHECK-NEXT: [2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3],
// CHECK-NEXT: [0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0],
// CHECK-NEXT: [0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0],
// CHECK-NEXT: [1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2],
// CHECK-NEXT: [3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0],
// CHECK-NEXT: [0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0],
// CHECK-NEXT: [0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1],
// CHECK-NEXT: [2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3],
// CHECK-NEXT: [0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0],
// CHECK-NEXT: [0, 0, 1, 2, 3, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0]]
