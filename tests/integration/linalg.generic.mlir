// linalg.generic: an operation on memrefs, written out: the sums of a matrix's rows and a row's weights.
// BREAK: s/affine_map<(i, j) -> (j)>/affine_map<(i, j) -> (i)>/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<6x6xi32>, %weights: memref<6xi32>, %out: memref<6xi32>) kernel {
      linalg.generic {
        indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>],
        iterator_types = ["parallel", "reduction"]
      } ins(%x, %weights : memref<6x6xi32>, memref<6xi32>) outs(%out : memref<6xi32>) {
      ^element(%value: i32, %weight: i32, %sum: i32):
        %product = arith.muli %value, %weight : i32
        %next = arith.addi %sum, %product : i32
        linalg.yield %next : i32
      }
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %x = gpu.alloc host_shared () : memref<6x6xi32>
    %weights = gpu.alloc host_shared () : memref<6xi32>
    %out = gpu.alloc host_shared () : memref<6xi32>
    scf.for %i = %c0 to %c6 step %c1 {
      scf.for %j = %c0 to %c6 step %c1 {
        %row = arith.muli %i, %c6 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %thirteen = arith.constant 13 : i32
        %modulus = arith.constant 32 : i32
        %product = arith.muli %k, %thirteen : i32
        %v = arith.remsi %product, %modulus : i32
        memref.store %v, %x[%i, %j] : memref<6x6xi32>
      }
    }
    scf.for %i = %c0 to %c6 step %c1 {
      %k = arith.index_cast %i : index to i32
      %v = arith.muli %k, %k : i32
      memref.store %v, %weights[%i] : memref<6xi32>
    }
    %zero = arith.constant 0 : i32
    scf.for %i = %c0 to %c6 step %c1 {
      memref.store %zero, %out[%i] : memref<6xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%x : memref<6x6xi32>, %weights : memref<6xi32>, %out : memref<6xi32>)
    %print_out = memref.cast %out : memref<6xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<6x6xi32>
    gpu.dealloc %weights : memref<6xi32>
    gpu.dealloc %out : memref<6xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [6] strides = [1] data =
// CHECK-NEXT: [525, 655, 1105, 947, 1173, 727]
