// scf.index_switch: a choice among numbers.
// BREAK: s/case 2/case 3/
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @kernel(%x: memref<32xi32>, %out: memref<32xi32>) kernel {
      %c5 = arith.constant 5 : index
      %i = gpu.thread_id x
      %x_i = memref.load %x[%i] : memref<32xi32>
      %k = arith.index_cast %x_i : i32 to index
      %rest = arith.remui %k, %c5 : index
      %r = scf.index_switch %rest -> i32
      case 0 {
        %zero = arith.constant 0 : i32
        scf.yield %zero : i32
      }
      case 2 {
        %minus = arith.constant -2 : i32
        scf.yield %minus : i32
      }
      default {
        scf.yield %x_i : i32
      }
      memref.store %r, %out[%i] : memref<32xi32>
      gpu.return
    }
  }

  func.func private @printMemrefI32(memref<*xi32>)

  func.func @main() -> i32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %x = gpu.alloc host_shared () : memref<32xi32>
    %out = gpu.alloc host_shared () : memref<32xi32>
    scf.for %i = %c0 to %c32 step %c1 {
      %k = arith.index_cast %i : index to i32
      memref.store %k, %x[%i] : memref<32xi32>
    }
    gpu.launch_func @kernels::@kernel blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1)
        args(%x : memref<32xi32>, %out : memref<32xi32>)
    %print_out = memref.cast %out : memref<32xi32> to memref<*xi32>
    call @printMemrefI32(%print_out) : (memref<*xi32>) -> ()
    gpu.dealloc %x : memref<32xi32>
    gpu.dealloc %out : memref<32xi32>
    %success = arith.constant 0 : i32
    return %success : i32
  }
}

// Computed by NumPy: tests/integration/expected.py.
// CHECK: Unranked Memref base@ = {{.*}} rank = 1 offset = 0 sizes = [32] strides = [1] data =
// CHECK-NEXT: [0, 1, -2, 3, 4, 0, 6, -2, 8, 9, 0, 11, -2, 13, 14, 0, 16, -2, 18, 19, 0, 21, -2, 23, 24, 0, 26, -2, 28, 29, 0, 31]
