// linalg.softmax: each row's powers of e, divided by their sum.
// BREAK: s/dimension(1)/dimension(0)/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<3x4xf64>, %out: memref<3x4xf64>) kernel {
      linalg.softmax dimension(1) ins(%x : memref<3x4xf64>) outs(%out : memref<3x4xf64>)
      gpu.return
    }
  }

  func.func private @printMemrefF64(memref<*xf64>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %x = gpu.alloc host_shared () : memref<3x4xf64>
    %out = gpu.alloc host_shared () : memref<3x4xf64>
    scf.for %i = %c0 to %c3 step %c1 {
      scf.for %j = %c0 to %c4 step %c1 {
        %row = arith.muli %i, %c4 : index
        %place = arith.addi %row, %j : index
        %k = arith.index_cast %place : index to i32
        %wide = arith.sitofp %k : i32 to f64
        %half = arith.constant 0.5 : f64
        %v = arith.mulf %wide, %half : f64
        memref.store %v, %x[%i, %j] : memref<3x4xf64>
      }
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%x : memref<3x4xf64>, %out : memref<3x4xf64>)
    %print_out = memref.cast %out : memref<3x4xf64> to memref<*xf64>
    call @printMemrefF64(%print_out) : (memref<*xf64>) -> ()
    gpu.dealloc %x : memref<3x4xf64>
    gpu.dealloc %out : memref<3x4xf64>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 2 offset = 0 sizes = [3, 4] strides = [4, 1] data =
// CHECK-NEXT: {{\[\[}}0.101536, 0.167405, 0.276004, 0.455054],
// CHECK-NEXT: [0.101536, 0.167405, 0.276004, 0.455054],
// CHECK-NEXT: [0.101536, 0.167405, 0.276004, 0.455054]]
