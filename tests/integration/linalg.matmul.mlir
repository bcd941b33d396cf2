// linalg.matmul: a product of matrices in a kernel: each workgroup multiplies its own pair of rows by all
// of B.
// BREAK: s/ins(%rows, %b/ins(%others, %b/
// BREAK: s/gpu.block_id x/gpu.thread_id x/
!rows = memref<2x4xf32, strided<[4, 1], offset: ?>>
!result = memref<2x5xf32, strided<[5, 1], offset: ?>>
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%a: memref<6x4xf32>, %b: memref<4x5xf32>, %out: memref<6x5xf32>) kernel {
      %c0 = arith.constant 0 : index
      %c2 = arith.constant 2 : index
      %block = gpu.block_id x
      %first = arith.muli %block, %c2 : index
      %rows = memref.subview %a[%first, 0] [2, 4] [1, 1] : memref<6x4xf32> to !rows
      %others = memref.subview %a[%c0, 0] [2, 4] [1, 1] : memref<6x4xf32> to !rows
      %result = memref.subview %out[%first, 0] [2, 5] [1, 1] : memref<6x5xf32> to !result
      linalg.matmul ins(%rows, %b : !rows, memref<4x5xf32>) outs(%result : !result)
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %a = gpu.alloc host_shared () : memref<6x4xf32>
    %b = gpu.alloc host_shared () : memref<4x5xf32>
    %out = gpu.alloc host_shared () : memref<6x5xf32>
    scf.for %i = %c0 to %c6 step %c1 {
      scf.for %j = %c0 to %c4 step %c1 {
        %row = arith.muli %i, %c4 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %f = arith.sitofp %k : i32 to f32
        %ten = arith.constant 10.0 : f32
        %half = arith.constant 0.5 : f32
        %moved = arith.subf %f, %ten : f32
        %v = arith.mulf %moved, %half : f32
        memref.store %v, %a[%i, %j] : memref<6x4xf32>
      }
    }
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c5 step %c1 {
        %row = arith.muli %i, %c5 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %f = arith.sitofp %k : i32 to f32
        %half = arith.constant 0.5 : f32
        %v = arith.mulf %f, %half : f32
        memref.store %v, %b[%i, %j] : memref<4x5xf32>
      }
    }
    scf.for %i = %c0 to %c6 step %c1 {
      scf.for %j = %c0 to %c5 step %c1 {
        %v = arith.constant 2.0 : f32
        memref.store %v, %out[%i, %j] : memref<6x5xf32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c3, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%a : memref<6x4xf32>, %b : memref<4x5xf32>, %out : memref<6x5xf32>)
    %print_out = memref.cast %out : memref<6x5xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %a : memref<6x4xf32>
    gpu.dealloc %b : memref<4x5xf32>
    gpu.dealloc %out : memref<6x5xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [6, 5] strides = [5, 1] data =
// CHECK-NEXT: {{\[\[}}-55.5, -64, -72.5, -81, -89.5],
// CHECK-NEXT: [-25.5, -30, -34.5, -39, -43.5],
// CHECK-NEXT: [4.5, 4, 3.5, 3, 2.5],
// CHECK-NEXT: [34.5, 38, 41.5, 45, 48.5],
// CHECK-NEXT: [64.5, 72, 79.5, 87, 94.5],
// CHECK-NEXT: [94.5, 106, 117.5, 129, 140.5]]
