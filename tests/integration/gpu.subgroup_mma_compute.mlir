// gpu.subgroup_mma_compute: a subgroup multiplies two matrices and adds a third: by matrix units where
// the chip has them.
// BREAK: s/%left, %right, %start/%left, %right, %again/
!left = !gpu.mma_matrix<16x16xf16, "AOp">
!right = !gpu.mma_matrix<16x16xf16, "BOp">
!sum = !gpu.mma_matrix<16x16xf32, "COp">
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%a: memref<16x16xf16>, %b: memref<16x16xf16>, %out: memref<16x16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1.0 : f32
      %two = arith.constant 2.0 : f32
      %left = gpu.subgroup_mma_load_matrix %a[%c0, %c0] {leadDimension = 16 : index}
          : memref<16x16xf16> -> !left
      %right = gpu.subgroup_mma_load_matrix %b[%c0, %c0] {leadDimension = 16 : index}
          : memref<16x16xf16> -> !right
      %start = gpu.subgroup_mma_constant_matrix %one : !sum
      %again = gpu.subgroup_mma_constant_matrix %two : !sum
      %product = gpu.subgroup_mma_compute %left, %right, %start : !left, !right -> !sum
      gpu.subgroup_mma_store_matrix %product, %out[%c0, %c0] {leadDimension = 16 : index}
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
    %a = gpu.alloc host_shared () : memref<16x16xf16>
    %b = gpu.alloc host_shared () : memref<16x16xf16>
    %out = gpu.alloc host_shared () : memref<16x16xf32>
    scf.for %i = %c0 to %c16 step %c1 {
      scf.for %j = %c0 to %c16 step %c1 {
        %row = arith.muli %i, %c16 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %seven = arith.constant 7 : i32
        %three = arith.constant 3 : i32
        %rest = arith.remsi %k, %seven : i32
        %whole = arith.subi %rest, %three : i32
        %v = arith.sitofp %whole : i32 to f16
        memref.store %v, %a[%i, %j] : memref<16x16xf16>
      }
    }
    scf.for %i = %c0 to %c16 step %c1 {
      scf.for %j = %c0 to %c16 step %c1 {
        %row = arith.muli %i, %c16 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %five = arith.constant 5 : i32
        %two = arith.constant 2 : i32
        %rest = arith.remsi %k, %five : i32
        %whole = arith.subi %rest, %two : i32
        %v = arith.sitofp %whole : i32 to f16
        memref.store %v, %b[%i, %j] : memref<16x16xf16>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%a : memref<16x16xf16>, %b : memref<16x16xf16>, %out : memref<16x16xf32>)
    %print_out = memref.cast %out : memref<16x16xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %a : memref<16x16xf16>
    gpu.dealloc %b : memref<16x16xf16>
    gpu.dealloc %out : memref<16x16xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [16, 16] strides = [16, 1] data =
// CHECK-NEXT: {{\[\[}}0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0],
// CHECK-NEXT: [10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10],
// CHECK-NEXT: [6, -1, 7, -5, -2, 6, -1, 7, -5, -2, 6, -1, 7, -5, -2, 6],
// CHECK-NEXT: [2, -3, 7, -3, 2, 2, -3, 7, -3, 2, 2, -3, 7, -3, 2, 2],
// CHECK-NEXT: [-2, -5, 7, -1, 6, -2, -5, 7, -1, 6, -2, -5, 7, -1, 6, -2],
// CHECK-NEXT: [1, 7, -7, -6, 10, 1, 7, -7, -6, 10, 1, 7, -7, -6, 10, 1],
// CHECK-NEXT: [-10, 5, 0, 10, 0, -10, 5, 0, 10, 0, -10, 5, 0, 10, 0, -10],
// CHECK-NEXT: [0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0],
// CHECK-NEXT: [10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10],
// CHECK-NEXT: [6, -1, 7, -5, -2, 6, -1, 7, -5, -2, 6, -1, 7, -5, -2, 6],
// CHECK-NEXT: [2, -3, 7, -3, 2, 2, -3, 7, -3, 2, 2, -3, 7, -3, 2, 2],
// CHECK-NEXT: [-2, -5, 7, -1, 6, -2, -5, 7, -1, 6, -2, -5, 7, -1, 6, -2],
// CHECK-NEXT: [1, 7, -7, -6, 10, 1, 7, -7, -6, 10, 1, 7, -7, -6, 10, 1],
// CHECK-NEXT: [-10, 5, 0, 10, 0, -10, 5, 0, 10, 0, -10, 5, 0, 10, 0, -10],
// CHECK-NEXT: [0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0, 10, 0, 5, -10, 0],
// CHECK-NEXT: [10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10, -6, -7, 7, 1, 10]]
