// vector.contract: a product of small matrices in one work-item.
// BREAK: s/affine_map<(i, j, k) -> (k, j)>/affine_map<(i, j, k) -> (j, k)>/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<4x4xf32>, %out: memref<4x4xf32>) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %a = vector.transfer_read %x[%c0, %c0], %zero {in_bounds = [true, true]}
          : memref<4x4xf32>, vector<4x4xf32>
      %ones = arith.constant dense<1.0> : vector<4x4xf32>
      %product = vector.contract {
        indexing_maps = [
          affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>
        ],
        iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>
      } %a, %a, %ones : vector<4x4xf32>, vector<4x4xf32> into vector<4x4xf32>
      vector.transfer_write %product, %out[%c0, %c0] {in_bounds = [true, true]}
          : vector<4x4xf32>, memref<4x4xf32>
      gpu.return
    }
  }

  func.func private @printMemrefF32(memref<*xf32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %x = gpu.alloc host_shared () : memref<4x4xf32>
    %out = gpu.alloc host_shared () : memref<4x4xf32>
    scf.for %i = %c0 to %c4 step %c1 {
      scf.for %j = %c0 to %c4 step %c1 {
        %row = arith.muli %i, %c4 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %f = arith.sitofp %k : i32 to f32
        %ten = arith.constant 10.0 : f32
        %half = arith.constant 0.5 : f32
        %moved = arith.subf %f, %ten : f32
        %v = arith.mulf %moved, %half : f32
        memref.store %v, %x[%i, %j] : memref<4x4xf32>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%x : memref<4x4xf32>, %out : memref<4x4xf32>)
    %print_out = memref.cast %out : memref<4x4xf32> to memref<*xf32>
    call @printMemrefF32(%print_out) : (memref<*xf32>) -> ()
    gpu.dealloc %x : memref<4x4xf32>
    gpu.dealloc %out : memref<4x4xf32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [4, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}40, 31.5, 23, 14.5],
// CHECK-NEXT: [24, 19.5, 15, 10.5],
// CHECK-NEXT: [8, 7.5, 7, 6.5],
// CHECK-NEXT: [-8, -4.5, -1, 2.5]]
