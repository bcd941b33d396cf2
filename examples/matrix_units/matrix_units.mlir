// C = A * B with matrix units: subgroups multiply 16 x 16 matrices at once.
//
// A workgroup of four subgroups owns 32 x 32 elements of C, each subgroup a quarter of them. Along the
// inner dimension the workgroup copies a 32 x 16 tile of A and a 16 x 32 tile of B into workgroup
// memory, rounded to f16, which each subgroup then multiplies, adding up in f32. On NVIDIA chips this
// is done by tensor cores, on a CPU by vector code.
!a = memref<256x128xf32>
!b = memref<128x192xf32>
!c = memref<256x192xf32>
!tile_a = memref<32x16xf16, #gpu.address_space<workgroup>>
!tile_b = memref<16x32xf16, #gpu.address_space<workgroup>>
!left = !gpu.mma_matrix<16x16xf16, "AOp">
!right = !gpu.mma_matrix<16x16xf16, "BOp">
!sum = !gpu.mma_matrix<16x16xf32, "COp">

module attributes {gpu.container_module} {
  gpu.module @matrix_kernels {
    gpu.func @multiply(%a: !a, %b: !b, %c: !c)
        workgroup(%tile_a: !tile_a, %tile_b: !tile_b) kernel
        attributes {known_block_size = array<i32: 128, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %c32 = arith.constant 32 : index
      %k = arith.constant 128 : index
      %zero = arith.constant 0.0 : f32
      %item = gpu.thread_id x
      %block_x = gpu.block_id x
      %block_y = gpu.block_id y
      %first_row = arith.muli %block_y, %c32 : index
      %first_column = arith.muli %block_x, %c32 : index

      // The subgroup's quarter.
      %subgroup = gpu.subgroup_id : index
      %half_y = arith.divui %subgroup, %c2 : index
      %half_x = arith.remui %subgroup, %c2 : index
      %quarter_row = arith.muli %half_y, %c16 : index
      %quarter_column = arith.muli %half_x, %c16 : index

      // What the work-item copies: every eighth row of A's tile, every fourth of B's.
      %row_a = arith.divui %item, %c16 : index
      %column_a = arith.remui %item, %c16 : index
      %row_b = arith.divui %item, %c32 : index
      %column_b = arith.remui %item, %c32 : index

      %start = gpu.subgroup_mma_constant_matrix %zero : !sum
      %total = scf.for %base = %c0 to %k step %c16 iter_args(%partial = %start) -> (!sum) {
        scf.for %row = %row_a to %c32 step %c8 {
          %from_row = arith.addi %first_row, %row : index
          %from_column = arith.addi %base, %column_a : index
          %wide = memref.load %a[%from_row, %from_column] : !a
          %narrow = arith.truncf %wide : f32 to f16
          memref.store %narrow, %tile_a[%row, %column_a] : !tile_a
        }
        scf.for %row = %row_b to %c16 step %c4 {
          %from_row = arith.addi %base, %row : index
          %from_column = arith.addi %first_column, %column_b : index
          %wide = memref.load %b[%from_row, %from_column] : !b
          %narrow = arith.truncf %wide : f32 to f16
          memref.store %narrow, %tile_b[%row, %column_b] : !tile_b
        }
        gpu.barrier
        %left = gpu.subgroup_mma_load_matrix %tile_a[%quarter_row, %c0] {leadDimension = 16 : index}
            : !tile_a -> !left
        %right = gpu.subgroup_mma_load_matrix %tile_b[%c0, %quarter_column] {leadDimension = 32 : index}
            : !tile_b -> !right
        %next = gpu.subgroup_mma_compute %left, %right, %partial : !left, !right -> !sum
        gpu.barrier
        scf.yield %next : !sum
      }
      %out_row = arith.addi %first_row, %quarter_row : index
      %out_column = arith.addi %first_column, %quarter_column : index
      gpu.subgroup_mma_store_matrix %total, %c[%out_row, %out_column] {leadDimension = 192 : index} : !sum, !c
      gpu.return
    }
  }

  // Called from main.c as _mlir_ciface_multiply.
  func.func @multiply(%a: !a, %b: !b, %c: !c) attributes {llvm.emit_c_interface} {
    %c1 = arith.constant 1 : index
    %items = arith.constant 128 : index
    %groups_x = arith.constant 6 : index
    %groups_y = arith.constant 8 : index

    %start = gpu.wait async
    %da, %t1 = gpu.alloc async [%start] () : !a
    %db, %t2 = gpu.alloc async [%t1] () : !b
    %dc, %t3 = gpu.alloc async [%t2] () : !c
    %t4 = gpu.memcpy async [%t3] %da, %a : !a, !a
    %t5 = gpu.memcpy async [%t4] %db, %b : !b, !b
    %t6 = gpu.launch_func async [%t5] @matrix_kernels::@multiply
        blocks in (%groups_x, %groups_y, %c1) threads in (%items, %c1, %c1)
        args(%da : !a, %db : !b, %dc : !c)
    %t7 = gpu.memcpy async [%t6] %c, %dc : !c, !c
    %t8 = gpu.dealloc async [%t7] %da : !a
    %t9 = gpu.dealloc async [%t8] %db : !b
    %t10 = gpu.dealloc async [%t9] %dc : !c
    gpu.wait [%t10]
    return
  }
}
