// C = A * B in 16 x 16 tiles that a workgroup shares.
//
// Each work-item owns one element of C. The workgroup walks along the inner dimension: it loads one
// tile of A and one of B into workgroup memory, waits until both are there, multiplies them, and
// waits again before the next tiles overwrite them. Elements outside the matrices count as zero, so
// sizes need not be multiples of 16.
!matrix = memref<?x?xf32>
!tile = memref<16x16xf32, #gpu.address_space<workgroup>>

module attributes {gpu.container_module} {
  gpu.module @matmul_kernels {
    gpu.func @matmul(%a: !matrix, %b: !matrix, %c: !matrix)
        workgroup(%tile_a: !tile, %tile_b: !tile) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %zero = arith.constant 0.0 : f32
      %m = memref.dim %a, %c0 : !matrix
      %k = memref.dim %a, %c1 : !matrix
      %n = memref.dim %b, %c1 : !matrix
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %column = gpu.global_id x
      %row = gpu.global_id y
      %row_inside = arith.cmpi ult, %row, %m : index
      %column_inside = arith.cmpi ult, %column, %n : index

      %sum = scf.for %base = %c0 to %k step %c16 iter_args(%acc = %zero) -> (f32) {
        %k_of_a = arith.addi %base, %tx : index
        %k_of_a_inside = arith.cmpi ult, %k_of_a, %k : index
        %load_a = arith.andi %row_inside, %k_of_a_inside : i1
        %value_a = scf.if %load_a -> (f32) {
          %value = memref.load %a[%row, %k_of_a] : !matrix
          scf.yield %value : f32
        } else {
          scf.yield %zero : f32
        }
        memref.store %value_a, %tile_a[%ty, %tx] : !tile

        %k_of_b = arith.addi %base, %ty : index
        %k_of_b_inside = arith.cmpi ult, %k_of_b, %k : index
        %load_b = arith.andi %column_inside, %k_of_b_inside : i1
        %value_b = scf.if %load_b -> (f32) {
          %value = memref.load %b[%k_of_b, %column] : !matrix
          scf.yield %value : f32
        } else {
          scf.yield %zero : f32
        }
        memref.store %value_b, %tile_b[%ty, %tx] : !tile
        gpu.barrier

        %partial = scf.for %i = %c0 to %c16 step %c1 iter_args(%inner = %acc) -> (f32) {
          %x = memref.load %tile_a[%ty, %i] : !tile
          %y = memref.load %tile_b[%i, %tx] : !tile
          %product = arith.mulf %x, %y : f32
          %next = arith.addf %inner, %product : f32
          scf.yield %next : f32
        }
        gpu.barrier
        scf.yield %partial : f32
      }

      %store = arith.andi %row_inside, %column_inside : i1
      scf.if %store {
        memref.store %sum, %c[%row, %column] : !matrix
      }
      gpu.return
    }
  }

  // Called from main.c as _mlir_ciface_matmul.
  func.func @matmul(%a: !matrix, %b: !matrix, %c: !matrix) attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %m = memref.dim %a, %c0 : !matrix
    %k = memref.dim %a, %c1 : !matrix
    %n = memref.dim %b, %c1 : !matrix
    %groups_x = arith.ceildivui %n, %c16 : index
    %groups_y = arith.ceildivui %m, %c16 : index

    %start = gpu.wait async
    %da, %t1 = gpu.alloc async [%start] (%m, %k) : !matrix
    %db, %t2 = gpu.alloc async [%t1] (%k, %n) : !matrix
    %dc, %t3 = gpu.alloc async [%t2] (%m, %n) : !matrix
    %t4 = gpu.memcpy async [%t3] %da, %a : !matrix, !matrix
    %t5 = gpu.memcpy async [%t4] %db, %b : !matrix, !matrix
    %t6 = gpu.launch_func async [%t5] @matmul_kernels::@matmul
        blocks in (%groups_x, %groups_y, %c1) threads in (%c16, %c16, %c1)
        args(%da : !matrix, %db : !matrix, %dc : !matrix)
    %t7 = gpu.memcpy async [%t6] %c, %dc : !matrix, !matrix
    %t8 = gpu.dealloc async [%t7] %da : !matrix
    %t9 = gpu.dealloc async [%t8] %db : !matrix
    %t10 = gpu.dealloc async [%t9] %dc : !matrix
    gpu.wait [%t10]
    return
  }
}
